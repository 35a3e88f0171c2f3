from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.embedders import OnnxEmbedder
from models.errors import InvalidAnswer, ModelMissing, NotConfigured, WrongDeclaration
from tests.contracts.embedder import MODEL, PASSAGES, EmbedderContract
from tests.support.models.reference_bert import reference_vectors
from tests.support.models.tiny_bert import TEXTS, write_tiny_bert


def assert_reference(folder: Path) -> None:
    embedder = OnnxEmbedder(str(folder), threads=1)
    expected = reference_vectors(folder, embedder.pieces.read(TEXTS))
    assert np.abs(embedder.embed_passages(TEXTS) - expected).max() < 1e-5


class TestOnnxEmbedder(EmbedderContract):
    @staticmethod
    def load(name: str = MODEL, **settings: Any) -> OnnxEmbedder:
        return OnnxEmbedder(name, threads=1, **settings)


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"model_type": "xlm-roberta", "pooling": "cls", "hidden_act": "gelu_new"},
        {"model_type": "camembert", "pooling": "max", "hidden_act": "relu"},
        {"pooling": "cls", "hidden_act": "relu"},
        {"prefix": "bert.", "dtype": np.float16},
    ],
)
def test_the_graph_gives_the_vectors_of_the_reference(tmp_path: Path, model: dict[str, Any]) -> None:
    write_tiny_bert(tmp_path, **model)
    assert_reference(tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "mpnet"}, "'mpnet'"),
        ({"hidden_act": "silu"}, "'silu'"),
        ({"pooling": "lasttoken"}, "'lasttoken'"),
        ({"pooling": "mean+max"}, r"'mean\+max'"),
        ({"position_embedding_type": "relative_key"}, "relative positions"),
        ({"is_decoder": True}, "a decoder"),
        ({"modules": ("Dense",)}, "modules Dense"),
    ],
)
def test_an_unsupported_model_is_refused_and_the_other_embedder_named(
    tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    write_tiny_bert(tmp_path, **change)
    with pytest.raises(NotConfigured, match=f"{named}.*use 'sentence_transformers'"):
        OnnxEmbedder(str(tmp_path), threads=1).warm()


def test_a_model_that_answers_nan_is_an_invalid_answer(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path, broken="embeddings.LayerNorm.bias")
    with pytest.raises(InvalidAnswer, match="unit length"):
        OnnxEmbedder(str(tmp_path), threads=1).warm()


def test_damaged_weights_are_a_missing_model_and_repaired_ones_load(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    weights = tmp_path / "model.safetensors"
    whole, embedder = weights.read_bytes(), OnnxEmbedder(str(tmp_path), threads=1)
    for damaged in (b"", b"no weights at all", whole[: len(whole) // 2]):
        weights.write_bytes(damaged)
        with pytest.raises(ModelMissing, match=r"model\.safetensors"):
            embedder.warm()
    weights.write_bytes(whole)
    embedder.warm()


def test_weights_without_a_layer_are_a_missing_model(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path, num_hidden_layers=3)
    with pytest.raises(ModelMissing, match=r"encoder\.layer\.2"):
        OnnxEmbedder(str(tmp_path), threads=1).warm()


@pytest.mark.slow
def test_int8_is_close_depends_on_no_neighbour_and_has_its_own_fingerprint() -> None:
    exact, fast = OnnxEmbedder(MODEL, threads=2), OnnxEmbedder(MODEL, threads=2, precision="int8")
    expected, vectors = exact.embed_passages(PASSAGES[:20]), fast.embed_passages(PASSAGES[:20])
    assert (expected * vectors).sum(axis=1).min() > 0.99
    assert np.abs(fast.embed_passages([PASSAGES[7]])[0] - vectors[7]).max() < 1e-6
    assert fast.fingerprint != exact.fingerprint


def test_an_unknown_precision_or_device_is_refused_with_the_known_ones() -> None:
    with pytest.raises(WrongDeclaration, match=r"'int4'.*fp32, int8"):
        OnnxEmbedder(MODEL, threads=1, precision="int4")
    with pytest.raises(WrongDeclaration, match=r"'mps'.*cpu, cuda"):
        OnnxEmbedder(MODEL, threads=1, device="mps")


def fingerprint(folder: Path, *, threads: int = 1, **settings: Any) -> str:
    return OnnxEmbedder(str(folder), threads=threads, **settings).fingerprint


@pytest.fixture
def first(tmp_path: Path) -> str:
    write_tiny_bert(tmp_path)
    return fingerprint(tmp_path)


DECLARED: list[dict[str, Any]] = [{"pooling": "cls"}, {"hidden_act": "relu"}, {"num_attention_heads": 2}]


@pytest.mark.parametrize("change", [*DECLARED, {"prompts": {"query": "a "}}, {"dtype": np.float16}])
def test_another_model_has_another_fingerprint(tmp_path: Path, first: str, change: dict[str, Any]) -> None:
    write_tiny_bert(tmp_path, **change)
    assert fingerprint(tmp_path) != first


def test_a_different_use_of_the_model_has_another_fingerprint(tmp_path: Path, first: str) -> None:
    assert len({first, fingerprint(tmp_path, max_pieces=5), fingerprint(tmp_path, precision="int8")}) == 3


def test_what_has_no_effect_on_vectors_does_not_change_the_fingerprint(tmp_path: Path, first: str) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    write_tiny_bert(folder, modules=(), _name_or_path="elsewhere", hidden_dropout_prob=0.3)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    numbers = {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    padding = {"strategy": "BatchLongest", "direction": "Right", **numbers}
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "padding": padding}, indent=1))
    assert fingerprint(folder, threads=2) == first
