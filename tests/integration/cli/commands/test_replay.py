"""`chorale replay` where nothing runs: no store, no model, only the audit rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.integration.cli.commands.printed import complaint, document, output
from tests.support.command_line import Run, in_process
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


@pytest.fixture(scope="module")
def rows_alone(pipeline: RunningPipeline, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str]:
    """The command line on a home that holds a copy of the audit rows and nothing else; and the request in them."""
    home = tmp_path_factory.mktemp("rows")
    options: dict[str, Any] = {"top_k": 3, "include": ("ids", "explanation"), "timeout_s": 30}
    answer = pipeline.client().retrieve("who pays for repairs", cache="bypass", **options)
    wanted = "SELECT 1 FROM chorale_request WHERE request_id = ?", (answer.request_id,)
    with (
        closing(sqlite3.connect(pipeline.home / "audit.db")) as there,
        closing(sqlite3.connect(home / "audit.db")) as copy,
    ):
        until(lambda: there.execute(*wanted).fetchone())
        there.backup(copy)
    gone = {
        "CHORALE_HOME": str(home),
        "CHORALE_EMBEDDER": str(home / "no-model"),
        "CHORALE_REDIS_URL": "redis://127.0.0.1:1/0",
    }
    return lambda *arguments: in_process(*arguments, **gone), answer.request_id


def test_the_recorded_answer_is_fused_again_with_the_stores_stopped_and_the_model_gone(
    rows_alone: tuple[Run, str],
) -> None:
    chorale, request_id = rows_alone
    again = document(chorale("replay", request_id, "--json"))
    assert (again["is_equal"], again["was"], again["not_held"]) == (True, "rrf · rrf", [])
    assert len(again["questions"][0]["hits"]) == 3
    assert "who pays for repairs as recorded" in output(chorale("replay", request_id[:8]))


def test_another_configuration_shows_what_moves_and_what_the_rows_lack(rows_alone: tuple[Run, str]) -> None:
    chorale, request_id = rows_alone
    again = document(chorale("replay", request_id, "--configuration", "bm25", "--json"))
    after = [line["after"] for line in again["questions"][0]["moved"] if line["after"]]
    assert all(set(hit["branches"]) == {"bm25"} for hit in after)
    lacking = output(chorale("replay", request_id, "--configuration", "scores"), 8)
    assert "not in the rows: completed scores" in lacking


def test_an_unknown_request_and_an_unknown_configuration_are_sentences(rows_alone: tuple[Run, str]) -> None:
    chorale, request_id = rows_alone
    assert "the trail has no request 'nothing'" in chorale("replay", "nothing").stderr
    assert "no 'magic'; there are: rrf" in complaint(
        chorale("replay", request_id, "--configuration", "magic"), 2
    )
