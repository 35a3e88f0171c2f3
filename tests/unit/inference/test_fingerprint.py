from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.embedding.onnx_embedder import OnnxEmbedder
from tests.support.models.tiny_bert import write_tiny_bert


def fingerprint(folder: Path, **settings: Any) -> str:
    return OnnxEmbedder(str(folder), threads=1, **settings).fingerprint


@pytest.fixture
def first(tmp_path: Path) -> str:
    write_tiny_bert(tmp_path)
    return fingerprint(tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"pooling": "cls"}, {"hidden_act": "relu"}, {"num_attention_heads": 2}, {"prompts": {"query": "a "}}],
)
def test_another_model_has_another_fingerprint(tmp_path: Path, first: str, change: dict[str, Any]) -> None:
    write_tiny_bert(tmp_path, **change)
    assert fingerprint(tmp_path) != first


def test_other_weights_have_another_fingerprint(tmp_path: Path, first: str) -> None:
    write_tiny_bert(tmp_path, dtype=np.float16)
    assert fingerprint(tmp_path) != first


@pytest.mark.parametrize("settings", [{"max_pieces": 5}, {"precision": "int8"}])
def test_a_different_use_of_the_model_has_another_fingerprint(
    tmp_path: Path, first: str, settings: dict[str, Any]
) -> None:
    assert fingerprint(tmp_path, **settings) != first


def test_entries_without_effect_on_vectors_do_not_change_the_fingerprint(tmp_path: Path, first: str) -> None:
    write_tiny_bert(tmp_path, modules=(), _name_or_path="elsewhere", hidden_dropout_prob=0.3)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    padding = {
        "strategy": "BatchLongest",
        "direction": "Right",
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps({**tokenizer, "padding": padding}, indent=1))
    assert fingerprint(tmp_path) == first


def test_threads_and_folder_do_not_change_the_fingerprint(tmp_path: Path, first: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_tiny_bert(elsewhere)
    assert OnnxEmbedder(str(elsewhere), threads=2).fingerprint == first
