"""Tiny cross-encoders: the two backends agree, and other models are refused."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.backends import load_reranker
from inference.rerankers import OnnxReranker
from models.errors import InvalidAnswer, ModelMissing, NotConfigured, WrongDeclaration
from tests.support.models.model_hub import NAME, ModelHub
from tests.support.models.tiny_cross_encoder import PAIRS, write_tiny_cross_encoder
from tests.support.new_process import printed
from tests.support.servers.services import need

LIMIT_S = 20.0
LOCAL = ("onnx", "sentence_transformers")
LAYER = "bert.encoder.layer.1"


def logits(reranker: Any) -> list[float]:
    reranker.warm()
    scores = reranker.score(PAIRS, limit_s=LIMIT_S)
    assert (scores.chosen, scores.has_begun) == (len(PAIRS), True)
    assert None not in scores.logits
    return list(scores.logits)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("model_type", "family", "max_pieces"),
    [
        ("bert", "Bert", 16),
        ("roberta", "Roberta", None),
        ("xlm-roberta", "XLMRoberta", 16),
        ("camembert", "Camembert", None),
    ],
)
def test_both_backends_give_the_scores_of_cross_encoder_itself(
    tmp_path: Path, model_type: str, family: str, max_pieces: int | None
) -> None:
    need("sentence_transformers", "`make torch` installs it")
    import torch
    from sentence_transformers import CrossEncoder

    write_tiny_cross_encoder(
        tmp_path, model_type=model_type, architectures=[f"{family}ForSequenceClassification"]
    )
    reference = CrossEncoder(str(tmp_path), device="cpu", local_files_only=True, max_length=max_pieces)
    options = {"activation_fn": torch.nn.Identity(), "show_progress_bar": False}
    expected = [float(reference.predict([pair], **options)[0]) for pair in PAIRS]
    for backend in LOCAL:
        settings: dict[str, Any] = {"threads": 1, "device": "cpu", "max_pieces": max_pieces}
        reranker = load_reranker(str(tmp_path), backend=backend, **settings)
        assert np.abs(np.array(logits(reranker)) - expected).max() < 1e-4
    # Different pairs must have different scores; otherwise the comparison proves nothing.
    assert np.std(expected) > 0.05


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_a_score_in_int8_is_close_to_that_in_fp32_and_depends_on_no_other_pair(
    tmp_path: Path, model_type: str
) -> None:
    family = {"bert": "Bert", "roberta": "Roberta"}[model_type]
    architecture = f"{family}ForSequenceClassification"
    write_tiny_cross_encoder(tmp_path, model_type=model_type, architectures=[architecture])
    exact, fast = (
        OnnxReranker(str(tmp_path), threads=2, precision=precision) for precision in ("fp32", "int8")
    )
    together = logits(fast)
    assert 0 < np.abs(np.array(together) - logits(exact)).max() < np.std(together) / 2
    for precise in (exact, fast):
        alone = [precise.score([pair], limit_s=LIMIT_S).logits[0] for pair in PAIRS]
        assert alone == logits(precise)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["BertModel"]}, "is BertModel, not a reranker"),
        ({"architectures": None}, "of no named architecture, not a reranker"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "is Qwen3ForCausalLM, not a reranker"),
        ({"labels": 3}, "gives a pair 3 scores; a reranker gives one"),
        ({"without": "classifier.weight"}, r"lacks classifier\.weight: a model without all its weights"),
        ({"without": "bert.pooler.dense.bias"}, r"lacks .*pooler\.dense\.bias: a model without all"),
        (
            {"without": f"{LAYER}.output.dense.bias"},
            rf"lacks {LAYER}\.output\.dense\.bias: a model without all",
        ),
        ({"model_type": "mpnet"}, "the reranker 'onnx' does not support the architecture 'mpnet'"),
        ({"hidden_act": "silu"}, "the reranker 'onnx' does not support the activation 'silu'"),
    ],
)
def test_an_incomplete_cross_encoder_is_refused_and_the_message_says_why(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    write_tiny_cross_encoder(tmp_path, **change)
    with pytest.raises(NotConfigured, match=message):
        OnnxReranker(str(tmp_path), threads=1).warm()


def _no_object(folder: Path) -> None:
    (folder / "config.json").write_text("[]")


def _configured(folder: Path, **changes: Any) -> None:
    stated = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**stated, **changes}))


def _dangling(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/nowhere")


def _half(folder: Path) -> None:
    weights = folder / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)


BROKEN: dict[str, Callable[[Path], None]] = {
    "a config that is no object": _no_object,
    "a config with a word for a number": partial(_configured, max_position_embeddings="x"),
    # 32 numbers a token cannot be divided among five heads.
    "a config that does not fit the weights": partial(_configured, num_attention_heads=5),
    "weights that are a dangling link": _dangling,
    "half of the weights": _half,
    "no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
}


@pytest.mark.parametrize("backend", ["onnx", pytest.param("sentence_transformers", marks=pytest.mark.slow)])
@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_wrong_files_are_a_missing_model_and_repaired_ones_load(
    tmp_path: Path, broken: str, backend: str
) -> None:
    if backend == "sentence_transformers":
        need("torch", "`make torch` installs it")
    write_tiny_cross_encoder(tmp_path / "whole")
    folder = shutil.copytree(tmp_path / "whole", tmp_path / "model")
    BROKEN[broken](folder)
    reranker = load_reranker(str(folder), backend=backend, threads=1)
    with pytest.raises(ModelMissing) as raised:
        reranker.warm()
    with suppress(ModelMissing):
        _ = reranker.fingerprint
    with pytest.raises(ModelMissing) as not_loaded:
        reranker.score(PAIRS, limit_s=LIMIT_S)
    assert str(not_loaded.value) == f"the reranker {folder} is not loaded: {raised.value}"

    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "whole", folder)
    whole = load_reranker(str(tmp_path / "whole"), backend=backend, threads=1)
    assert logits(reranker) == logits(whole)
    assert reranker.fingerprint == whole.fingerprint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_pytorch_refuses_missing_weights_and_a_device_that_this_machine_does_not_have(tmp_path: Path) -> None:
    need("torch", "`make torch` installs it")
    write_tiny_cross_encoder(tmp_path)
    reranker = load_reranker(str(tmp_path), backend="sentence_transformers", threads=1, device="cuda:77")
    with pytest.raises(NotConfigured, match=r"device 'cuda:77': PyTorch finds \d+ CUDA devices"):
        reranker.warm()
    write_tiny_cross_encoder(tmp_path, without="classifier.weight")
    reranker = load_reranker(str(tmp_path), backend="sentence_transformers", threads=1, device="cpu")
    with pytest.raises(NotConfigured, match=r"lacks classifier\.weight: a model without all its weights"):
        reranker.warm()


def test_the_fingerprint_stays_that_of_the_loaded_weights(tmp_path: Path) -> None:
    write_tiny_cross_encoder(tmp_path)
    reranker = OnnxReranker(str(tmp_path), threads=1)
    before = OnnxReranker(str(tmp_path), threads=1).fingerprint
    reranker.warm()
    write_tiny_cross_encoder(tmp_path, broken="classifier.bias")
    assert reranker.fingerprint == before != OnnxReranker(str(tmp_path), threads=1).fingerprint


def test_a_model_that_answers_nan_is_an_invalid_answer(tmp_path: Path) -> None:
    reranker = OnnxReranker(str(write_tiny_cross_encoder(tmp_path, broken="classifier.weight")), threads=1)
    reranker.warm()
    with pytest.raises(InvalidAnswer, match="not a number"):
        reranker.score(PAIRS, limit_s=LIMIT_S)


def test_the_backends_share_one_fingerprint_and_length_and_precision_are_part_of_it(tmp_path: Path) -> None:
    write_tiny_cross_encoder(tmp_path)

    def mark(backend: str, max_pieces: int, precision: str = "fp32") -> str:
        settings: dict[str, Any] = {"max_pieces": max_pieces, "precision": precision}
        return load_reranker(str(tmp_path), backend=backend, threads=1, **settings).fingerprint

    assert {mark(backend, 32) for backend in LOCAL} == {mark("onnx", 32)}
    assert len({mark("onnx", 16), mark("onnx", 32), mark("onnx", 32, "int8")}) == 3
    assert mark("sentence_transformers", 32, "int8") == mark("onnx", 32), "PyTorch computes in fp32"


def test_more_pieces_than_the_model_reads_are_refused_with_what_it_reads(tmp_path: Path) -> None:
    write_tiny_cross_encoder(tmp_path)
    with pytest.raises(NotConfigured, match=r"max_pieces: 41; .* reads at most 40 word pieces"):
        OnnxReranker(str(tmp_path), threads=1, max_pieces=41).warm()


def test_unknown_names_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(WrongDeclaration, match="no reranker 'onxn'; there are: onnx, sentence_transformers"):
        load_reranker(str(tmp_path), backend="onxn", threads=1)
    with pytest.raises(ModelMissing, match="neither a folder nor downloaded from"):
        _ = load_reranker(str(tmp_path / "no/such/model"), backend="onnx", threads=1).fingerprint


def test_without_pytorch_one_sentence_says_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    write_tiny_cross_encoder(tmp_path)
    reranker = load_reranker(str(tmp_path), backend="sentence_transformers", threads=1)
    with pytest.raises(ModelMissing, match="make torch"):
        reranker.warm()
    assert reranker.fingerprint == load_reranker(str(tmp_path), backend="onnx", threads=1).fingerprint


# Of a reranker on the hub: only `fetch` contacts the hub, whose library reads its address when it is imported.

BEGIN = f"""
from inference.rerankers import OnnxReranker
from models.errors import ModelMissing
reranker = OnnxReranker({NAME!r}, threads=1)
def complaint(action):
    try:
        action()
    except ModelMissing as error:
        print(error)
"""


def in_new_process(program: str, home: Path, endpoint: str) -> list[str]:
    return printed(BEGIN + program, HF_HOME=str(home), HF_ENDPOINT=endpoint)


@pytest.mark.slow
def test_fingerprint_and_warm_never_contact_the_hub(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        program = "complaint(lambda: reranker.fingerprint)\ncomplaint(reranker.warm)"
        complaints = in_new_process(program, tmp_path, endpoint)
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()
    why = f"no model {NAME}: neither a folder nor downloaded from the Hugging Face hub yet"
    assert [line.partition(";")[0] for line in complaints] == [why] * 2


@pytest.mark.slow
def test_a_downloaded_reranker_is_found_without_the_hub(tmp_path: Path) -> None:
    folder = write_tiny_cross_encoder(tmp_path / "model")
    with ModelHub(folder) as hub:
        in_new_process("reranker.fetch()", tmp_path / "home", hub.origin)
    program = "reranker.fetch(); reranker.warm(); print(reranker.fingerprint)"
    # The hub is stopped; with the files on this machine it is not needed.
    marks = in_new_process(program, tmp_path / "home", hub.origin)
    assert marks == [OnnxReranker(str(folder), threads=1).fingerprint]


@pytest.mark.slow
def test_a_malformed_answer_of_the_hub_is_a_missing_model(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with ModelHub(tmp_path / "empty") as hub:
        assert in_new_process("complaint(reranker.fetch)", tmp_path / "home", hub.origin + "/elsewhere")
