from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.embedding.onnx_embedder import OnnxEmbedder
from tests.support.models.tiny_bert import write_tiny_bert


def fingerprint(folder: Path, *, threads: int = 1, **settings: Any) -> str:
    return OnnxEmbedder(str(folder), threads=threads, **settings).fingerprint


@pytest.fixture
def first(tmp_path: Path) -> str:
    write_tiny_bert(tmp_path)
    return fingerprint(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"pooling": "cls"},
        {"hidden_act": "relu"},
        {"num_attention_heads": 2},
        {"prompts": {"query": "a "}},
        {"dtype": np.float16},
    ],
)
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
