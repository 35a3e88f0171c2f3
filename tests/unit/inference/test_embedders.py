"""The table of embedders, and what a declaration sets for a local model."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.backends import load_embedder
from inference.concurrency import LazyValue
from inference.embedders import OnnxEmbedder
from models.errors import WrongDeclaration
from tests.support.models.tiny_bert import TEXTS, WIDTH, write_tiny_bert
from tests.support.new_process import printed


def test_an_unknown_embedder_is_refused_with_the_table() -> None:
    with pytest.raises(WrongDeclaration, match="'torch'; there are: onnx, sentence_transformers"):
        load_embedder("all-MiniLM-L6-v2", backend="torch", threads=1)


def test_neither_the_table_nor_a_fingerprint_imports_a_runtime(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    program = f"""
import sys
from inference.backends import load_embedder
print(len(load_embedder({str(tmp_path)!r}, backend="onnx", threads=1).fingerprint))
print(*{{'onnxruntime', 'torch', 'huggingface_hub'}} & sys.modules.keys())
"""
    assert printed(program) == ["32", ""]


@pytest.mark.slow
def test_importing_an_embedder_turns_the_runtimes_telemetry_off(tmp_path: Path) -> None:
    program = """
import os
os.environ.pop("ORT_DISABLE_TELEMETRY", None)
import inference.onnx.models
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""
    assert printed(program, TMPDIR=str(tmp_path)) == ["1"]
    assert list(tmp_path.iterdir()) == []


def test_many_threads_make_a_lazy_value_once_and_again_after_a_failure() -> None:
    made: list[object] = []
    together = threading.Barrier(8)

    def make() -> object:
        made.append(object())
        if len(made) == 1:
            raise ValueError("first")
        return made[-1]

    value = LazyValue(make)
    with pytest.raises(ValueError, match="first"):
        value()

    def get(_: int) -> object:
        together.wait(10)
        return value()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(get, range(8))) == made[1:] * 8
    assert len(made) == 2


PROMPTS = {"query": "query: ", "passage": "passage: "}


def opened(folder: Path, **settings: Any) -> OnnxEmbedder:
    return OnnxEmbedder(str(folder), threads=1, **settings)


def test_declared_prompts_replace_those_of_the_folder(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path, prompts=PROMPTS)
    declared = opened(tmp_path, question_prompt="a question ", passage_prompt="")
    declared.warm()
    write_tiny_bert(tmp_path)
    without = opened(tmp_path)
    assert np.abs(declared.embed_passages(TEXTS[:4]) - without.embed_passages(TEXTS[:4])).max() < 1e-6
    prompted = without.embed_passages([f"a question {text}" for text in TEXTS[:4]])
    assert np.abs(declared.embed_questions(TEXTS[:4]) - prompted).max() < 1e-6
    assert declared.max_pieces == without.max_pieces - 2


def test_vectors_are_cut_to_the_declared_dimensions_and_of_unit_length(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    cut, whole = opened(tmp_path, dimensions=8), opened(tmp_path).embed_passages(TEXTS)
    expected = whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True)
    vectors = cut.embed_passages(TEXTS)
    assert cut.dimension == 8
    assert np.abs(vectors - expected).max() < 1e-6
    assert vectors.flags.c_contiguous
    assert cut.embed_questions([]).shape == (0, 8)


@pytest.mark.parametrize("dimensions", [0, WIDTH + 1])
def test_dimensions_that_the_model_does_not_have_are_refused(tmp_path: Path, dimensions: int) -> None:
    write_tiny_bert(tmp_path)
    with pytest.raises(WrongDeclaration, match=f"dimensions: {dimensions}; .* vectors of {WIDTH} numbers"):
        opened(tmp_path, dimensions=dimensions).warm()
