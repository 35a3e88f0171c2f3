"""A cross-encoder that is fine-tuned here, with real weights and a real tokenizer: its scores in both backends."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from inference.backends import RERANKERS, load_reranker
from tests.support.models.trained_cross_encoder import HELD_OUT, PIECES, Pair, documents, train
from tests.support.servers.services import need

pytestmark = [
    pytest.mark.slow,
    # Training takes some 25 s of one core, and more where the others are busy.
    pytest.mark.limit_s(400),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


@pytest.fixture(scope="module")
def held_out() -> list[Pair]:
    return documents()[:HELD_OUT]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("torch", "`make torch` installs it")
    folder = tmp_path_factory.mktemp("cross-encoder")
    train(folder, documents()[HELD_OUT:])
    return folder


def test_both_backends_give_the_scores_of_cross_encoder_itself(trained: Path, held_out: list[Pair]) -> None:
    import torch
    from sentence_transformers import CrossEncoder

    pairs = [*held_out[:10], *((held_out[0][0], rest) for _, rest in held_out[:10])]
    library = CrossEncoder(str(trained), device="cpu", local_files_only=True, max_length=PIECES)
    expected = library.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    for backend in RERANKERS:
        reranker = load_reranker(str(trained), backend=backend, threads=2, device="cpu", max_pieces=PIECES)
        reranker.warm()
        logits = reranker.score(pairs, limit_s=100).logits

        assert None not in logits
        assert np.abs(np.array(logits, np.float32) - expected).max() < 1e-4
    assert np.std(expected) > 0.03


def test_a_trained_model_finds_the_second_half_of_unseen_documents_among_forty(
    trained: Path, held_out: list[Pair]
) -> None:
    reranker = load_reranker(str(trained), backend="onnx", threads=2, max_pieces=PIECES)
    reranker.warm()
    reciprocal_ranks = []
    for at, (first, _) in enumerate(held_out[:20]):
        logits = reranker.score([(first, rest) for _, rest in held_out], limit_s=100).logits
        own = logits[at]
        assert own is not None
        reciprocal_ranks.append(1 / sum(logit is not None and logit >= own for logit in logits))
    # By chance it would be (1 + 1/2 + ... + 1/40) / 40 = .107; measured: .28
    assert fmean(reciprocal_ranks) > 0.2
