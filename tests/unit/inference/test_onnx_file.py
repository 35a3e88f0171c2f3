from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, save_model

from inference.embedding.onnx_embedder import OnnxEmbedder
from models.errors import InvalidAnswer, ModelMissing, NotConfigured
from tests.support.models.reference_bert import reference_vectors
from tests.support.models.tiny_bert import TEXTS, WIDTH, write_tiny_bert
from tests.support.models.tiny_onnx import KINDS, write_tiny_onnx


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


@pytest.mark.parametrize(
    "file",
    [
        {},
        {"output": "token_embeddings"},
        {"output": "sentence_embedding"},
        {"inputs": ("input_ids", "attention_mask")},
        {"inputs": ("attention_mask", "token_type_ids", "input_ids"), "integers": "int32"},
        {"file": "model.onnx"},
        {"beside": True},
    ],
)
def test_every_kind_of_onnx_file_gives_the_vectors_of_the_reference_implementation(
    tmp_path: Path, file: dict[str, Any]
) -> None:
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


@pytest.mark.parametrize("pooling", ["cls", "max"])
def test_the_tokens_are_pooled_as_the_folder_says(tmp_path: Path, pooling: str) -> None:
    write_other(tmp_path, pooling=pooling, modules=("Normalize",))
    assert_reference(tmp_path)


def test_the_bert_family_is_built_from_its_weights_and_the_file_serves_where_there_are_none(
    tmp_path: Path,
) -> None:
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
    half = joined[:, WIDTH:]
    assert np.abs(half / np.linalg.norm(half, axis=1, keepdims=True) - last).max() < 1e-5


def test_further_modules_must_be_part_of_the_file(tmp_path: Path) -> None:
    write_other(tmp_path, modules=("Dense",), output="sentence_embedding", width=8)
    plain = tmp_path / "plain"
    plain.mkdir()
    write_other(plain, output="sentence_embedding")
    cut = embedder_of(plain).embed_passages(TEXTS)[:, :8]
    found = embedder_of(tmp_path).embed_passages(TEXTS)
    assert np.abs(found - cut / np.linalg.norm(cut, axis=1, keepdims=True)).max() < 1e-5


def test_a_length_that_is_not_the_folders_is_refused_with_both_numbers(tmp_path: Path) -> None:
    write_other(tmp_path, modules=("Dense",), output="sentence_embedding")
    with pytest.raises(InvalidAnswer, match="8 numbers expected, 32 given"):
        embedder_of(tmp_path).warm()


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ({"modules": ("Dense",)}, "the modules Dense"),
        ({"pooling": "mean+largest"}, "the pooling 'largest'"),
        ({"output": "logits"}, "the outputs logits"),
        (
            {"inputs": ("input_ids", "attention_mask", "position_ids")},
            "the inputs attention_mask, input_ids, position_ids",
        ),
        ({"integers": "float"}, r"inputs of tensor\(float\)"),
    ],
)
def test_an_unsupported_model_is_refused_and_the_other_embedder_named(
    tmp_path: Path, model: dict[str, Any], named: str
) -> None:
    if "integers" in model or "inputs" in model:
        write_other(tmp_path)
        write_echo(tmp_path, **model)
    else:
        write_other(tmp_path, **model)
    with pytest.raises(NotConfigured, match=rf"{named} of .*model\.onnx; use 'sentence_transformers'"):
        embedder_of(tmp_path).warm()


def write_echo(
    folder: Path, *, inputs: tuple[str, ...] = ("input_ids", "attention_mask"), integers: str = "int64"
) -> None:
    """An ONNX file with these inputs."""
    shape: tuple[str | int, ...] = ("batch", "length", WIDTH)
    node = helper.make_node("Sum" if integers == "float" else "Max", list(inputs), ["last_hidden_state"])
    save_model(
        helper.make_model(
            helper.make_graph(
                [node],
                "echo",
                [helper.make_tensor_value_info(name, KINDS[integers], shape) for name in inputs],
                [helper.make_tensor_value_info("last_hidden_state", KINDS[integers], shape)],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=9,
        ),
        folder / "onnx/model.onnx",
    )


def test_pooling_without_the_prompt_is_refused(tmp_path: Path) -> None:
    write_other(tmp_path)
    (tmp_path / "1_Pooling/config.json").write_text(
        json.dumps({"pooling_mode": "mean", "include_prompt": False})
    )
    with pytest.raises(NotConfigured, match="pooling without the prompt"):
        embedder_of(tmp_path).warm()


def test_int8_is_refused_for_an_onnx_file_and_the_message_says_what_to_use(tmp_path: Path) -> None:
    write_other(tmp_path)
    with pytest.raises(NotConfigured, match=r"does not support int8 for .*model\.onnx; use fp32"):
        embedder_of(tmp_path, precision="int8").warm()


def test_without_weights_and_without_a_file_the_model_is_missing(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelMissing, match=r"neither model\.safetensors nor model\.onnx"):
        embedder_of(tmp_path).warm()


def test_a_damaged_file_is_a_missing_model(tmp_path: Path) -> None:
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
