"""Every command once as a process of its own: its entry, its exit code, and where it prints."""

from __future__ import annotations

import pytest

from cli.command_list import PANELS
from tests.support.command_line import as_process
from tests.support.pipelines.pipeline import RunningPipeline

ENDED = {
    "search": (("bread",), 0, "complete"),
    "cancel": (("never-sent",), 1, "nothing is known of 'never-sent'"),
    "index": (("{note}", "-n", "entry"), 0, "1 added"),
    "delete": (("nobody",), 0, "0 deleted, 1 were not there"),
    "verify": ((), 0, "one embedded store"),
    "namespaces": (("list",), 0, "default"),
    "status": ((), 0, "in flight"),
    "doctor": (("--json",), 0, '"check":"redis answers","status":"well"'),
    "audit": (("prune", "--older-than", "1d", "--yes"), 0, "0 requests older than 1d"),
    "jobs": (("list", "--json"), 0, '"jobs":['),
    "keys": (("list", "--json"), 0, '"keys":['),
    "backup": (("{folder}",), 0, "with the audit trail"),
    "restore": (("{folder}/nothing",), 1, "is no backup"),
    "worker": (("chorale.nosuch",), 2, "no queue"),
    "rules": (("show", "default", "--json"), 0, '"version":0'),
    "replay": (("never-sent",), 1, "never-sent"),
    "compare": (("rrf", "scores", "{folder}/nothing"), 2, "corpus.jsonl is missing"),
    "tune": (("{folder}/nothing",), 2, "corpus.jsonl is missing"),
    "train": (("reranker", "{folder}/nothing", "--out", "{folder}/model"), 2, "corpus.jsonl is missing"),
}
"""Arguments, exit code and a part of what is printed."""
ELSEWHERE = {"demo", "up", "serve", "sweeper", "mcp", "eval", "bench", "golden"}
"""Tests of their own start these as processes."""


def test_no_command_is_left_out() -> None:
    assert ENDED.keys() | ELSEWHERE == {name for commands in PANELS.values() for name in commands}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDED)
def test_a_command_ends_with_its_exit_code(
    name: str, pipeline: RunningPipeline, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "entry"
    folder.mkdir(exist_ok=True)
    (folder / "note.md").write_text("# Roses\n\nRoses are cut in spring.\n")
    arguments, code, said = ENDED[name]
    places = {"note": folder / "note.md", "folder": folder / "backup"}
    called = as_process(name, *(one.format(**places) for one in arguments), **pipeline.environment)
    assert called.returncode == code, called.stdout + called.stderr
    printed, other = (called.stdout, called.stderr) if code == 0 else (called.stderr, called.stdout)
    # Long paths wrap the line.
    assert said in " ".join(printed.split())
    assert other == ""
