"""`chorale audit prune` and `erase`, as an operator calls them."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import select

from models.tables.installation import segment_table
from records.audit import deletion, queries
from records.database import open_database
from records.jobs.job import Line, NewJob
from records.jobs.segment_rows import lines_of
from tests.integration.cli.commands.printed import complaint, document, output
from tests.support.command_line import Run
from tests.support.faults.observers import in_outbox
from tests.support.pipelines.bulk import line, results, submit, wait_ended
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


def ids(pipeline: RunningPipeline) -> set[str]:
    """The request ids of the whole trail."""
    engine = open_database(pipeline.resources.settings.audit_database_url)
    try:
        return {line.request_id for line in queries.last(engine, 10_000)}
    finally:
        engine.dispose()


def wait_recorded(pipeline: RunningPipeline, *request_ids: str) -> None:
    """Waits until these requests are in the trail and no longer in the outbox, which they leave a moment later."""
    expected = {*request_ids}
    until(lambda: expected <= ids(pipeline) and not any(in_outbox(pipeline.redis, one) for one in expected))


def test_what_a_customer_asked_is_erased_once_it_is_confirmed(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    client = pipeline.client()
    theirs = client.retrieve("who pays for repairs?", correlation_id="customer-17", timeout_s=20).request_id
    other = client.retrieve("when may a tenant leave?", timeout_s=20).request_id
    wait_recorded(pipeline, theirs, other)

    nobodys = complaint(chorale("audit", "erase", "--correlation", "nobody-17"))
    assert nobodys == "chorale: nothing in the trail or on its way there is of correlation nobody-17\n"
    erase = ("audit", "erase", "--correlation", "customer-17")
    assert "this deletes 1 request: add --yes" in complaint(chorale(*erase), 2)
    assert document(chorale(*erase, "--yes", "--json"))["removed"] == 1
    assert {theirs, other} & ids(pipeline) == {other}

    report = output(chorale("audit", "prune", "--older-than", "1d", "--yes"))
    assert report == "0 requests older than 1d: deleted from the trail"
    assert other in ids(pipeline)


def test_a_request_is_erased_by_what_the_list_shows_of_its_id(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    first, alike, other = "f5334cde-1", "f5334cff-2", "0ther-3"
    for request_id in (first, alike, other):
        pipeline.client().retrieve("who pays for repairs?", request_id=request_id, timeout_s=20)
    wait_recorded(pipeline, first, alike, other)

    erase = ("audit", "erase", "--yes", "--request")
    assert f"several ids begin with 'f5334c': {first}, {alike}" in complaint(chorale(*erase, "f5334c"))
    erased = f"1 request of request {first}: deleted from the trail, 0 from the outbox"
    assert output(chorale(*erase, "f5334cde")) == erased
    assert {first, alike, other} & ids(pipeline) == {alike, other}


def test_without_redis_the_trail_is_cleared_and_the_outbox_is_reported_as_not_cleared(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    answer = pipeline.client().retrieve("who pays for repairs?", correlation_id="gone", timeout_s=20)
    wait_recorded(pipeline, answer.request_id)
    nowhere = {"CHORALE_REDIS_URL": "redis://127.0.0.1:1/0"}
    called = chorale("audit", "erase", "--correlation", "gone", "--yes", "--json", **nowhere)
    erased = document(called, 8)
    assert (erased["removed"], erased["removed_from_outbox"]) == (1, None)
    assert "the outbox was not reached, and requests that wait in it still enter the trail" in called.stderr
    assert answer.request_id not in ids(pipeline)


def files_with(word: str, *folders: Path) -> set[str]:
    """The files below these folders that contain the word."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return {file.name for file in files if word.encode() in file.read_bytes()}


def test_no_file_of_the_home_has_an_erased_question(pipeline: RunningPipeline, chorale: Run) -> None:
    home, redis_folder = pipeline.resources.settings.home, pipeline.server.folder
    request_id = (
        pipeline.client().retrieve("who pays for zyklamen?", correlation_id="erased", timeout_s=20).request_id
    )
    job_id = submit(
        pipeline,
        [line(1, "who waters zyklamen?", correlation_id="erased"), line(2, "who pays for repairs?")],
    )
    wait_ended(pipeline, job_id)
    wait_recorded(pipeline, request_id)
    assert any(name.endswith(".aof") for name in files_with("zyklamen", home, redis_folder))

    erased = document(chorale("audit", "erase", "--correlation", "erased", "--yes", "--json"))
    assert (erased["removed"], erased["erased_from_jobs"]) == (1, 1)
    assert files_with("zyklamen", home, redis_folder) == set()
    first, second = results(pipeline, job_id).values()
    assert (first["hits"], first["error"], bool(second["hits"])) == ([], "(erased)", True)
    (segment,) = read_lines_of(pipeline, job_id)
    assert [one.fields["questions"][0]["text"] for one in segment if one.fields] == [
        "(erased)",
        "who pays for repairs?",
    ]


def read_lines_of(pipeline: RunningPipeline, job_id: str) -> list[list[Line]]:
    """The lines of each segment as they are stored."""
    engine = open_database(pipeline.resources.settings.audit_database_url)
    try:
        with engine.connect() as connection:
            packed = connection.scalars(select(segment_table.c.lines).where(segment_table.c.job_id == job_id))
            return [lines_of(one) for one in packed]
    finally:
        engine.dispose()


def test_the_ended_jobs_of_an_erased_namespace_are_deleted_and_those_that_have_not_ended_are_named(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    jobs, not_ended = pipeline.resources.jobs, uuid4().hex
    job_id = submit(pipeline, [line(1, "who pays?"), line(2, "who leaves?")], namespace="elsewhere")
    wait_ended(pipeline, job_id)
    # A submission that sends its lines.
    jobs.create(NewJob(not_ended, "elsewhere"), now_ms=time.time_ns() // 1_000_000)
    refused = pipeline.client().retrieve("anything", namespace="elsewhere", timeout_s=20).request_id
    wait_recorded(pipeline, refused)
    called = chorale("audit", "erase", "--namespace", "elsewhere", "--yes", "--json")
    erased = document(called, 8)
    assert (erased["removed"], erased["erased_from_jobs"]) == (1, 2)
    assert "1 job has not ended and keeps its lines: `chorale jobs cancel`" in called.stderr
    assert {job.job_id for job in jobs.last(1_000)} & {job_id, not_ended} == {not_ended}
    jobs.cancel(not_ended)


def test_a_database_that_somebody_reads_is_named_as_not_emptied(
    pipeline: RunningPipeline, chorale: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_id = pipeline.client().retrieve("who reads?", correlation_id="read", timeout_s=20).request_id
    wait_recorded(pipeline, request_id)
    monkeypatch.setattr(deletion, "CHECKPOINT_LIMIT_S", 0.0)
    with closing(
        sqlite3.connect(pipeline.resources.settings.home / "audit.db", isolation_level=None)
    ) as reader:
        # The reader sees the trail as it was before.
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM chorale_request").fetchone()[0]
        called = chorale("audit", "erase", "--correlation", "read", "--yes", "--json")
    assert document(called, 8)["log_of_database_emptied"] is False
    assert "the texts stay in the database's -wal file" in called.stderr
