from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, save_model
from onnxruntime.quantization import quantize_dynamic

from inference.embedders import OnnxEmbedder
from models.documents import Matrix
from models.errors import InvalidAnswer, ModelMissing, NotConfigured
from tests.support.models.reference_bert import reference_vectors
from tests.support.models.tiny_bert import TEXTS, WIDTH, write_tiny_bert
from tests.support.models.tiny_onnx import write_tiny_onnx


def write_other(folder: Path, *, pooling: str = "mean", modules: tuple[str, ...] = (), **file: Any) -> None:
    """A model outside the BERT family, with its ONNX file."""
    write_tiny_bert(folder, model_type="distilbert", pooling=pooling, modules=modules)
    write_tiny_onnx(folder, **file)


def embedder_of(folder: Path, **settings: Any) -> OnnxEmbedder:
    return OnnxEmbedder(str(folder), threads=1, **settings)


def assert_reference(folder: Path) -> None:
    embedder = embedder_of(folder)
    expected = reference_vectors(folder, embedder.pieces.read(TEXTS))
    assert np.abs(embedder.embed_passages(TEXTS) - expected).max() < 1e-5


def unit(vectors: Matrix) -> Matrix:
    scaled: Matrix = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


@pytest.mark.parametrize(
    "file",
    [
        {},
        {"pooling": "cls", "modules": ("Normalize",)},
        {"pooling": "max", "modules": ("Normalize",)},
        {"output": "token_embeddings"},
        {"output": "sentence_embedding"},
        {"inputs": ("input_ids", "attention_mask")},
        {"inputs": ("attention_mask", "token_type_ids", "input_ids"), "integers": "int32"},
        {"file": "model.onnx"},
        {"beside": True},
    ],
)
def test_each_kind_of_onnx_file_gives_the_reference_vectors(tmp_path: Path, file: dict[str, Any]) -> None:
    write_other(tmp_path, **file)
    assert_reference(tmp_path)


def test_links_into_another_folder_are_followed_as_in_the_hub_s_cache(tmp_path: Path) -> None:
    blobs, model = tmp_path / "blobs", tmp_path / "model"
    blobs.mkdir()
    model.mkdir()
    write_other(model, beside=True)
    for number, part in enumerate(("model.onnx", "model.onnx_data")):
        (model / "onnx" / part).rename(blobs / str(number))
        (model / "onnx" / part).symlink_to(blobs / str(number))
    assert_reference(model)


def test_the_bert_family_is_built_from_its_weights_and_without_them_the_file_serves(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    write_tiny_onnx(tmp_path)
    weights, file = tmp_path / "model.safetensors", tmp_path / "onnx/model.onnx"
    assert embedder_of(tmp_path).weight_files() == [weights]
    expected = reference_vectors(tmp_path, embedder_of(tmp_path).pieces.read(TEXTS))
    weights.unlink()
    assert embedder_of(tmp_path).weight_files() == [file]
    assert np.abs(embedder_of(tmp_path).embed_passages(TEXTS) - expected).max() < 1e-5


def test_a_pooling_that_the_graph_lacks_works_with_the_file(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path, pooling="mean+lasttoken")
    write_tiny_onnx(tmp_path)
    joined = embedder_of(tmp_path).embed_passages(TEXTS)
    assert joined.shape == (len(TEXTS), 2 * WIDTH)
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": "lasttoken"}))
    last = embedder_of(tmp_path).embed_passages(TEXTS)
    assert np.abs(unit(joined[:, WIDTH:]) - last).max() < 1e-5


def test_further_modules_must_be_part_of_the_file(tmp_path: Path) -> None:
    write_other(tmp_path, output="sentence_embedding")
    whole = embedder_of(tmp_path).embed_passages(TEXTS)
    write_other(tmp_path, modules=("Dense",), output="sentence_embedding", width=8)
    assert np.abs(embedder_of(tmp_path).embed_passages(TEXTS) - unit(whole[:, :8])).max() < 1e-5
    write_other(tmp_path, modules=("Dense",), output="sentence_embedding")
    with pytest.raises(InvalidAnswer, match="8 numbers expected, 32 given"):
        embedder_of(tmp_path).warm()


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ({"modules": ("Dense",)}, "the modules Dense"),
        ({"pooling": "mean+largest"}, "the pooling 'largest'"),
        ({"output": "logits"}, "the outputs logits"),
    ],
)
def test_an_unsupported_model_is_refused_and_the_other_embedder_named(
    tmp_path: Path, model: dict[str, Any], named: str
) -> None:
    write_other(tmp_path, **model)
    with pytest.raises(NotConfigured, match=rf"{named} of .*model\.onnx; use 'sentence_transformers'"):
        embedder_of(tmp_path).warm()


@pytest.mark.parametrize(
    ("inputs", "kind", "named"),
    [
        (["input_ids", "attention_mask", "x"], TensorProto.INT64, "the inputs attention_mask, input_ids, x"),
        (["input_ids", "attention_mask"], TensorProto.FLOAT, r"inputs of tensor\(float\)"),
    ],
)
def test_unknown_inputs_are_refused(tmp_path: Path, inputs: list[str], kind: int, named: str) -> None:
    write_other(tmp_path)
    node = helper.make_node("Sum" if kind == TensorProto.FLOAT else "Max", inputs, ["last_hidden_state"])
    tensors, (vectors,) = (
        [helper.make_tensor_value_info(name, kind, ("batch", "length", WIDTH)) for name in names]
        for names in (inputs, ["last_hidden_state"])
    )
    graph = helper.make_graph([node], "echo", tensors, [vectors])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    save_model(model, tmp_path / "onnx/model.onnx")
    with pytest.raises(NotConfigured, match=rf"{named} of .*model\.onnx; use 'sentence_transformers'"):
        embedder_of(tmp_path).warm()


def test_int8_and_pooling_without_the_prompt_are_refused(tmp_path: Path) -> None:
    write_other(tmp_path)
    with pytest.raises(NotConfigured, match=r"does not support int8 for .*model\.onnx; use fp32"):
        embedder_of(tmp_path, precision="int8").warm()
    pooling = {"pooling_mode": "mean", "include_prompt": False}
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps(pooling))
    with pytest.raises(NotConfigured, match="pooling without the prompt"):
        embedder_of(tmp_path).warm()


def test_a_vector_of_a_file_with_8_bit_integers_does_not_depend_on_the_other_texts(tmp_path: Path) -> None:
    write_other(tmp_path)
    file = tmp_path / "onnx/model.onnx"
    exact = embedder_of(tmp_path).embed_passages(TEXTS)
    quantize_dynamic(file, file)
    embedder = embedder_of(tmp_path)
    together = embedder.embed_passages(TEXTS)
    alone = np.concatenate([embedder.embed_passages([text]) for text in TEXTS])
    assert np.array_equal(together, alone)
    assert 1e-5 < np.abs(together - exact).max() < 0.1, "the weights were rounded, and the model is the same"


def test_a_missing_or_damaged_file_is_a_missing_model(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelMissing, match=r"neither model\.safetensors nor model\.onnx"):
        embedder_of(tmp_path).warm()
    write_other(tmp_path)
    file = tmp_path / "onnx/model.onnx"
    whole = file.read_bytes()
    embedder = embedder_of(tmp_path)
    for damaged in (b"no graph at all", whole[: len(whole) // 2]):
        file.write_bytes(damaged)
        with pytest.raises(ModelMissing, match=r"model\.onnx"):
            embedder.warm()
    file.write_bytes(whole)
    embedder.warm()


@pytest.mark.parametrize("part", ["model.onnx", "model.onnx_data"])
def test_the_fingerprint_covers_the_file_and_its_data_files(tmp_path: Path, part: str) -> None:
    write_other(tmp_path, beside=True)
    before = embedder_of(tmp_path).fingerprint
    (tmp_path / "model.safetensors").unlink()
    assert embedder_of(tmp_path).fingerprint == before, "vectors do not depend on these files"
    changed = tmp_path / "onnx" / part
    changed.write_bytes(changed.read_bytes() + b"\0")
    assert embedder_of(tmp_path).fingerprint != before
