"""`chorale up` where the system has nothing that only Linux has, as on macOS: a real pipeline whose processes pretend it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.command_line import ROOT, command
from tests.support.waiting import until

WITHOUT_LINUX = ROOT / "tests" / "support" / "without_linux"


def called(home: Path, *arguments: str) -> dict[str, Any]:
    """What `subprocess` takes to call `chorale` on such a system."""
    return command(*arguments, CHORALE_HOME=str(home), PYTHONPATH=f"{ROOT}:{WITHOUT_LINUX}")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(**called(tmp_path, "up"), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            assert any("ready: `chorale index FOLDER`" in line for line in lines), "`up` ended"
            yield process
        finally:
            process.kill()


def runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def complete_answer(home: Path) -> dict[str, Any] | None:
    """None if a busy machine has started a branch too late; the next search then has its hits."""
    call = called(home, "search", "Who pays for repairs?", "-n", "docs", "--json")
    answer: dict[str, Any] = json.loads(subprocess.run(**call, check=True, stdout=subprocess.PIPE).stdout)
    return answer if answer["status"] == "complete" else None


@pytest.mark.slow
def test_documents_are_indexed_and_found_and_nothing_outlives_a_killed_up(
    up: subprocess.Popen[str], tmp_path: Path
) -> None:
    children = psutil.Process(up.pid).children(recursive=True)
    assert any("watch" in child.cmdline() for child in children), "their processes are looked after"
    note = tmp_path / "repairs.md"
    note.write_text("# Repairs\nThe landlord pays for repairs.\n")

    subprocess.run(**called(tmp_path, "index", str(note), "-n", "docs"), check=True)
    answer = until(lambda: complete_answer(tmp_path), 60)

    assert answer is not None
    (question,) = answer["questions"]
    assert [hit["document_id"] for hit in question["hits"]] == ["repairs.md"]
    up.kill()
    until(lambda: not any(map(runs, children)))
