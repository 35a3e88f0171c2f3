from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inference.backends import load_embedder
from inference.lazy_value import LazyValue
from models.errors import WrongDeclaration
from tests.support.models.tiny_bert import write_tiny_bert

ROOT = Path(__file__).parents[3]


def test_an_unknown_embedder_is_refused_with_the_table() -> None:
    with pytest.raises(WrongDeclaration, match="'torch'; there are: onnx, sentence_transformers"):
        load_embedder("all-MiniLM-L6-v2", backend="torch", threads=1)


def test_neither_the_table_nor_a_fingerprint_imports_a_runtime(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    program = f"""
import sys
from inference.backends import load_embedder
print(len(load_embedder({str(tmp_path)!r}, backend="onnx", threads=1).fingerprint))
print(*{{'onnx', 'onnxruntime', 'torch', 'huggingface_hub'}} & sys.modules.keys())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["32"]


def test_many_threads_make_a_lazy_value_once() -> None:
    made: list[int] = []
    together = threading.Barrier(8)

    def make() -> object:
        made.append(1)
        return object()

    value = LazyValue(make)

    def ask(_: int) -> object:
        together.wait(10)
        return value()

    with ThreadPoolExecutor(8) as threads:
        values = list(threads.map(ask, range(8)))
    assert len(made) == 1
    assert len({id(value) for value in values}) == 1


def test_a_lazy_value_is_made_again_after_a_failure() -> None:
    answers = iter(["second"])
    failures = iter([ValueError("first")])

    def make() -> str:
        for failure in failures:
            raise failure
        return next(answers)

    value = LazyValue(make)
    with pytest.raises(ValueError, match="first"):
        value()
    assert value() == "second"
    assert value() == "second"
