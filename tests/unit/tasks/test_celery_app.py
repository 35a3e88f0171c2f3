"""The app for Celery's own command line keeps what `chorale worker` promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.product import ROOT

START = """
import logging, os
from celery import signals
from tasks.app import process_app
process_app()
signals.setup_logging.send(sender=None)
logging.getLogger("some.library").warning("\\x1b[2Jforged")
print(oct(os.umask(0)))
"""


@pytest.mark.slow
def test_its_files_are_private_and_its_log_does_not_steer_the_terminal(tmp_path: Path) -> None:
    address = {"CHORALE_HOME": str(tmp_path), "CHORALE_REDIS_URL": f"unix://{tmp_path}/none.sock"}
    called = subprocess.run(
        [sys.executable, "-c", START],
        env={**os.environ, "PYTHONPATH": str(ROOT), **address},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert called.stdout == "0o77\n", called.stderr
    assert r"\x1b[2Jforged" in called.stderr
    assert "\x1b" not in called.stderr


@pytest.mark.slow
def test_celerys_own_worker_command_names_the_queues_when_one_is_misspelt(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "celery", "-A", "tasks.app", "worker", "-Q", "chorale.bm25,search.bm25"]
    environment = {**os.environ, "CHORALE_HOME": str(tmp_path), "CHORALE_REDIS_URL": "redis://127.0.0.1:1"}
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1] == (
        "chorale: no queue 'search.bm25'; there are: chorale.retrieve, chorale.bm25, chorale.vector, chorale.hyde, "
        "chorale.fusion, chorale.index, chorale.bulk"
    )
