"""The embedder `onnx`, and the products of its graph in int8."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inference.embedders import OnnxEmbedder
from inference.onnx.graph import CONTRIB, OPSET, BertGraph, Builder
from inference.onnx.models import bert_session
from models.errors import InvalidAnswer, ModelMissing, NotConfigured, WrongDeclaration
from models.onnx_messages import FLOAT, model, port, tensor
from tests.contracts.embedder import MODEL, PASSAGES, EmbedderContract
from tests.support.models.reference_bert import reference_vectors
from tests.support.models.tiny_bert import TEXTS, WIDTH, write_tiny_bert


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


FIXED = "4a8af48adf31d88bd76200e796386d52"
FIXED_WITH_PROMPTS = "9ce235790cff7753f3f7666d2aa3a041"
"""Fingerprints that indexes were built with: they must never change."""


def fingerprint(folder: Path, *, threads: int = 1, **settings: Any) -> str:
    return OnnxEmbedder(str(folder), threads=threads, **settings).fingerprint


def test_fingerprints_of_existing_indexes_stay(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    assert fingerprint(tmp_path) == FIXED
    same: dict[str, Any] = {"question_prompt": "", "passage_prompt": "", "dimensions": WIDTH}
    assert fingerprint(tmp_path, **same) == FIXED
    declared: dict[str, Any] = {"question_prompt": "query: ", "passage_prompt": "passage: "}
    assert fingerprint(tmp_path, **declared) == FIXED_WITH_PROMPTS
    write_tiny_bert(tmp_path, prompts={"query": "query: ", "passage": "passage: "})
    assert fingerprint(tmp_path) == FIXED_WITH_PROMPTS


@pytest.mark.parametrize(
    ("model", "use"),
    [
        ({"pooling": "cls"}, {}),
        ({"hidden_act": "relu"}, {}),
        ({"num_attention_heads": 2}, {}),
        ({"prompts": {"query": "a "}}, {}),
        ({"dtype": np.float16}, {}),
        ({}, {"max_pieces": 5}),
        ({}, {"precision": "int8"}),
        ({}, {"question_prompt": "a "}),
        ({}, {"passage_prompt": "a "}),
        ({}, {"dimensions": 8}),
    ],
)
def test_another_model_or_another_use_of_it_has_another_fingerprint(
    tmp_path: Path, model: dict[str, Any], use: dict[str, Any]
) -> None:
    write_tiny_bert(tmp_path, **model)
    assert fingerprint(tmp_path, **use) != FIXED


def test_what_has_no_effect_on_vectors_does_not_change_the_fingerprint(tmp_path: Path) -> None:
    folder = tmp_path
    write_tiny_bert(folder, modules=(), _name_or_path="elsewhere", hidden_dropout_prob=0.3)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    numbers = {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    padding = {"strategy": "BatchLongest", "direction": "Right", **numbers}
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "padding": padding}, indent=1))
    assert fingerprint(folder, threads=2) == FIXED


Rows = NDArray[np.float32]


def product(x: Rows, matrix: Rows) -> Rows:
    build = Builder("int8")
    build.op("Identity", [build.product("x", "matrix", matrix)], output="y")
    promised = [tensor(name, value, has_data=False) for name, value in build.weights.items()]
    ports = [port("x", FLOAT, ["rows", "width"])], port("y", FLOAT, ["rows", "columns"])
    file = model(build.nodes, [*build.constants.values(), *promised], *ports, {"": OPSET, CONTRIB: 1})
    y: Rows = bert_session(BertGraph(file, build.weights), Path("y"), 1, "cpu").run(None, {"x": x})[0]
    return y


def rows(*scales: float, seed: int = 1) -> Rows:
    random = np.random.default_rng(seed).standard_normal((len(scales), 384)).astype(np.float32)
    return random * np.array(scales, np.float32)[:, None]


def test_a_product_depends_on_no_other_row() -> None:
    matrix, x = rows(*[1] * 8, seed=2).T.copy(), rows(1e-3, 1, 1e3)
    together = product(x, matrix)
    assert np.array_equal(together, np.concatenate([product(row[None], matrix) for row in x]))
    errors = np.linalg.norm(together - x @ matrix, axis=1) / np.linalg.norm(x @ matrix, axis=1)
    assert errors.max() < 0.03, "small rows are as exact as large ones"


def test_the_largest_integers_overflow_on_no_processor() -> None:
    ones = np.ones((1, 384), np.float32)
    for sign in (1, -1):
        assert np.allclose(product(ones, sign * ones.T), sign * 384)


def test_a_row_or_a_column_of_zeros_has_the_product_0() -> None:
    assert not product(rows(0, 0), rows(1, 1).T.copy()).any()
    assert not product(rows(1, 1), rows(0, 0).T.copy()).any()
