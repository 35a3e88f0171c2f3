"""A reranker on the hub: only `fetch` contacts the hub.

The hub library reads its address when it is imported, so each test starts a process.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from inference.rerankers import OnnxReranker
from tests.support.models.model_hub import NAME, ModelHub
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.new_process import printed

pytestmark = pytest.mark.slow
BEGIN = f"""
from inference.rerankers import OnnxReranker
from models.errors import ModelMissing
reranker = OnnxReranker({NAME!r}, threads=1)
def complaint(action):
    try:
        action()
    except ModelMissing as error:
        print(error)
"""


def in_new_process(program: str, home: Path, endpoint: str) -> list[str]:
    return printed(BEGIN + program, HF_HOME=str(home), HF_ENDPOINT=endpoint)


def test_fingerprint_and_warm_never_contact_the_hub(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        program = "complaint(lambda: reranker.fingerprint)\ncomplaint(reranker.warm)"
        complaints = in_new_process(program, tmp_path, endpoint)
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()
    why = f"no model {NAME}: neither a folder nor downloaded from the Hugging Face hub yet"
    assert [line.partition(";")[0] for line in complaints] == [why] * 2


def test_a_downloaded_reranker_is_found_without_the_hub(tmp_path: Path) -> None:
    folder = write_tiny_cross_encoder(tmp_path / "model")
    with ModelHub(folder) as hub:
        in_new_process("reranker.fetch()", tmp_path / "home", hub.origin)
    program = "reranker.fetch(); reranker.warm(); print(reranker.fingerprint)"
    # The hub is stopped; with the files on this machine it is not needed.
    marks = in_new_process(program, tmp_path / "home", hub.origin)
    assert marks == [OnnxReranker(str(folder), threads=1).fingerprint]


def test_a_malformed_answer_of_the_hub_is_a_missing_model(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with ModelHub(tmp_path / "empty") as hub:
        assert in_new_process("complaint(reranker.fetch)", tmp_path / "home", hub.origin + "/elsewhere")
