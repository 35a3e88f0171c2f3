"""What a known model gets where its files do not say it: its prompts and its pooling, by its name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inference.embedders import OnnxEmbedder, SentenceTransformersEmbedder
from inference.known_models import known_model, known_prompts
from models.errors import NotConfigured
from tests.support.models.reference_bert import reference_vectors
from tests.support.models.tiny_bert import TEXTS, write_tiny_bert

BGE = ("Represent this sentence for searching relevant passages: ", "")


@pytest.mark.parametrize(
    ("name", "prompts"),
    [
        ("BAAI/bge-small-en-v1.5", BGE),
        ("Xenova/bge-small-en-v1.5", BGE),
        ("/models/bge-small-en-v1.5/", BGE),
        ("bge-small-en-v1.5", BGE),
        ("/models/e5-small-v2", ("query: ", "passage: ")),
        ("/models/gte-small", (None, None)),
        ("/models/bge-small-en-v1.5/finetuned", (None, None)),
        ("/models/my-bge-small-en-v1.5", (None, None)),
        ("", (None, None)),
    ],
)
def test_the_last_part_of_a_name_tells_the_prompts(name: str, prompts: tuple[str | None, str | None]) -> None:
    assert known_prompts(name) == prompts


@pytest.mark.parametrize(
    ("name", "pooling"),
    [("bge-small-en-v1.5", "cls"), ("e5-small-v2", "mean"), ("a-model-of-ours", "mean")],
)
def test_a_folder_that_does_not_state_its_pooling_has_that_of_its_model(
    tmp_path: Path, name: str, pooling: str
) -> None:
    folder, stated = tmp_path / name, tmp_path / "stated"
    for each in (folder, stated):
        each.mkdir()
        write_tiny_bert(each, pooling=pooling)
    (folder / "modules.json").unlink()
    embedder = OnnxEmbedder(str(folder), threads=1)
    expected = reference_vectors(stated, embedder.pieces.read(TEXTS))
    assert np.abs(embedder.embed_passages(TEXTS) - expected).max() < 1e-5


def test_a_folder_that_states_its_pooling_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "bge-small-en-v1.5"
    folder.mkdir()
    write_tiny_bert(folder, pooling="mean")
    known = known_model(str(folder))
    assert known is not None
    assert known.pooling == "cls"
    assert OnnxEmbedder(str(folder), threads=1).model.pooling == "mean"


def test_sentence_transformers_refuses_a_folder_whose_tokens_it_would_pool_in_another_way(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "bge-small-en-v1.5"
    folder.mkdir()
    write_tiny_bert(folder)
    (folder / "modules.json").unlink()
    with pytest.raises(NotConfigured, match=r"has no modules\.json.*the pooling of .* is 'cls'"):
        _ = SentenceTransformersEmbedder(str(folder), threads=1).fingerprint
