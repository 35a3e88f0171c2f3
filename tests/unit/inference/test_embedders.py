from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inference.backends import load_embedder
from inference.concurrency import LazyValue
from models.errors import WrongDeclaration
from tests.support.models.tiny_bert import write_tiny_bert
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


def test_many_threads_make_a_lazy_value_once() -> None:
    made: list[object] = []
    together = threading.Barrier(8)

    def make() -> object:
        made.append(object())
        return made[-1]

    value = LazyValue(make)

    def get(_: int) -> object:
        together.wait(10)
        return value()

    with ThreadPoolExecutor(8) as threads:
        values = list(threads.map(get, range(8)))
    assert len(made) == 1
    assert values == made * 8


def test_a_lazy_value_is_made_again_after_a_failure() -> None:
    values: list[str] = []

    def make() -> str:
        values.append("a value")
        if len(values) == 1:
            raise ValueError("first")
        return values[-1]

    value = LazyValue(make)
    with pytest.raises(ValueError, match="first"):
        value()
    assert (value(), value()) == ("a value", "a value")
    assert len(values) == 2
