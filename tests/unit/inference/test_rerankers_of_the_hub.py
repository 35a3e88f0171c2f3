"""A reranker on the hub: only `fetch` contacts the hub.

The hub library reads its address when it is imported, so each test starts a process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.reranking.onnx_reranker import OnnxReranker
from tests.support.models.model_hub import NAME, ModelHub
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder

ROOT = Path(__file__).parents[3]
BEGIN = f"""
from inference.reranking.onnx_reranker import OnnxReranker
from models.errors import ModelMissing
reranker = OnnxReranker({NAME!r}, threads=1)
"""


def in_new_process(program: str, home: Path, endpoint: str, *, within_s: float = 30) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        cwd=ROOT,
        env={**os.environ, "HF_HOME": str(home), "HF_ENDPOINT": endpoint},
        capture_output=True,
        text=True,
        timeout=within_s,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.slow
def test_fingerprint_and_warm_never_wait_for_a_silent_hub(silent: socket.socket, tmp_path: Path) -> None:
    program = """
for what in (lambda: reranker.fingerprint, reranker.warm):
    try:
        what()
    except ModelMissing as error:
        print(error)
"""
    endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
    said = in_new_process(program, tmp_path, endpoint, within_s=12).splitlines()
    assert [line.partition(";")[0] for line in said] == [
        f"no model {NAME}: neither a folder nor downloaded from the Hugging Face hub yet"
    ] * 2
    silent.setblocking(False)
    with pytest.raises(BlockingIOError):
        silent.accept()


@pytest.mark.slow
def test_a_downloaded_reranker_is_found_without_the_hub(tmp_path: Path) -> None:
    folder = write_tiny_cross_encoder(tmp_path / "model")
    with ModelHub(folder) as hub:
        in_new_process("reranker.fetch()", tmp_path / "home", hub.origin)
    program = "reranker.fetch(); reranker.warm(); print(reranker.fingerprint)"
    # The hub is stopped; with the files on this machine it is not needed.
    mark = in_new_process(program, tmp_path / "home", hub.origin)
    assert mark == OnnxReranker(str(folder), threads=1).fingerprint


@pytest.mark.slow
def test_a_malformed_answer_of_the_hub_is_a_missing_model(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    program = """
try:
    reranker.fetch()
except ModelMissing as error:
    print("missing")
"""
    with ModelHub(tmp_path / "empty") as hub:
        assert in_new_process(program, tmp_path / "home", hub.origin + "/elsewhere") == "missing"
