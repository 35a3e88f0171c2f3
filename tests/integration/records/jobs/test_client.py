"""Bulk jobs through the client, which has Redis but not the database."""

from __future__ import annotations

import io
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from chorale_client import (
    Chorale,
    InvalidJob,
    NoSuchJob,
    NotEnded,
    QueueFull,
    ServiceUnavailable,
    WrongJobState,
    service_calls,
)
from chorale_client.jobs import handles as client_jobs
from chorale_client.jobs import input_stats
from chorale_client.jobs.handles import Jobs as ClientJobs
from chorale_client.keys import JOB_COMMANDS, JOB_REPLY
from redis import Redis

from config.settings import Settings
from records.database import upgrade
from records.jobs.job import JobsUnavailable, Outcome
from records.jobs.store import Jobs
from tasks.service_calls import ServiceCalls
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.jobs import answered, ended, next_segment, result, statuses
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the newest schema, to be copied."""
    file = tmp_path_factory.mktemp("schema") / "audit.db"
    upgrade(f"sqlite:///{file}")
    return file


@pytest.fixture
def store(
    redis_client: Redis,
    redis_server: RedisServer,
    database: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Jobs]:
    """The store of a sweeper that does the calls in a thread."""
    monkeypatch.setattr("tasks.service_calls.TAKE_S", 0.1)
    shutil.copy(database, tmp_path)
    resources = Resources(Settings(home=tmp_path), load_pipeline(None), redis_server.url)
    stop = threading.Event()
    sweeper = threading.Thread(target=ServiceCalls(resources, lambda: None).run, args=(stop,))
    sweeper.start()
    yield resources.jobs
    stop.set()
    sweeper.join()
    resources.jobs.close()
    resources.redis.connection_pool.disconnect()


@pytest.fixture
def jobs(
    redis_client: Redis, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClientJobs]:
    for name, value in {"AGAIN_S": 0.3, "POLL_S": 0.1}.items():
        monkeypatch.setattr(service_calls, name, value)
    monkeypatch.setattr(client_jobs, "LONGEST_POLL_S", 0.1)
    monkeypatch.setattr(client_jobs, "PATIENCE_S", 20)
    with closing(Chorale(redis_server.url)) as chorale:
        yield chorale.jobs


def questions(count: int) -> list[str]:
    return [f"question {number}" for number in range(1, count + 1)]


# Submitting


def test_questions_are_stored_as_segments_of_a_queued_job(jobs: ClientJobs, store: Jobs) -> None:
    fields: dict[str, Any] = {"namespace": "docs", "name": "weekly", "tenant": "ada"}
    handle = jobs.submit(questions(150), **fields, options={"top_k": 3}, deadline_s=60)
    job, row = handle.get(), store.get(handle.job_id)
    assert (job.state, job.total, row.segments) == ("queued", 150, 3)
    assert job.model_dump(include={*fields}) == fields
    assert job.created_at is not None
    assert job.deadline_at is not None
    assert 59 < (job.deadline_at - job.created_at).total_seconds() <= 60
    assert job.model_dump(mode="json", include={"counts"}) == {"counts": row.counts}
    line = next_segment(store, handle.job_id, now_ms=1).lines[1]
    assert (line.number, line.id) == (2, "2")
    assert line.fields == {"top_k": 3, "questions": [{"text": "question 2"}]}


@pytest.mark.parametrize("form", ["file", "stream"])
def test_a_file_or_stream_is_read_in_its_format(
    jobs: ClientJobs, store: Jobs, tmp_path: Path, form: str
) -> None:
    text = "id,text\na,tea\nb,rice\n"
    if form == "file":
        (tmp_path / "q.csv").write_text(text)
        handle = jobs.submit(tmp_path / "q.csv", namespace="docs")
        assert handle.get().name == "q.csv"
    else:
        handle = jobs.submit(io.BytesIO(text.encode()), form="csv", namespace="docs")
    ended(store, handle.job_id)
    assert [(one["line"], one["id"]) for one in handle.results()] == [(2, "a"), (3, "b")]


def test_wrong_lines_refuse_the_job_and_are_named_by_their_numbers(jobs: ClientJobs, store: Jobs) -> None:
    unreadable: list[Any] = ["half \ud800", {"text": "tea", "tags": {"x": object()}}, 5]
    lines = [
        {"id": "a", "text": "tea"},
        {"id": "a", "text": "rice"},
        *unreadable,
        *({"no": 1} for _ in range(30)),
    ]
    with pytest.raises(
        InvalidJob, match="34 of 35 lines are wrong:\n  line 2: id: 'a' is also the id"
    ) as raised:
        jobs.submit(lines, namespace="docs")
    assert raised.value.wrong == 34
    assert [number for number, _ in raised.value.lines] == list(range(2, 22))
    assert all(says.startswith("not ") for _, says in raised.value.lines[1:4])
    (job,) = jobs.last(5)
    assert (job.state, job.outcome, job.total) == ("ended", "failed", 0)
    assert job.reason.startswith("34 of 35 lines are wrong")


def test_skipped_wrong_lines_stay_as_refused(
    jobs: ClientJobs, store: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("records.jobs.result_formats.PAGE_BYTES", 200)  # results come in several pages
    handle = jobs.submit(["tea", {"text": ""}, "rice"], namespace="docs", on_error="skip")
    ended(store, handle.job_id)
    assert statuses(store, handle.job_id) == [(1, "complete"), (2, "refused"), (3, "complete")]
    assert list(handle.results()) == list(store.results(handle.job_id))


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ([], {}, "there is no line"),
    (["tea", 5], {}, "1 of 2 lines is wrong:\n  line 2: not "),
    (["tea"], {"weight": 0}, "weight: "),
    (["tea"], {"name": "a\0b"}, "name: the character U+0000 is not allowed"),
    (["tea"], {"on_end": {"mail": "a@b"}}, 'either {"task": name'),
    (["tea"], {"on_end": {"url": "ftp://example.org/"}}, "https://"),
    (["tea"], {"on_end": {"task": "t", "queue": "app"}}, "'app' is not in CHORALE_ON_END_QUEUES"),
    (["tea"], {"on_end": {"url": "https://example.org/"}}, "set CHORALE_WEBHOOK_SECRET"),
    ("absent.jsonl", {}, "absent.jsonl: No such file"),
    (io.StringIO("tea"), {}, "binary mode"),
]


@pytest.mark.parametrize(("lines", "options", "why"), REFUSED)
def test_a_job_that_cannot_be_done_is_refused_with_the_reason(
    jobs: ClientJobs, store: Jobs, lines: Any, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidJob) as raised:
        jobs.submit(lines, **{"namespace": "docs", **options})
    assert why in str(raised.value)
    assert [job.outcome for job in jobs.last()] in ([], ["failed"])


def test_a_submission_that_breaks_off_ends_its_job(jobs: ClientJobs, store: Jobs) -> None:
    def breaks() -> Iterator[str]:
        yield "tea"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk") as raised:
        jobs.submit(breaks(), namespace="docs")
    (job,) = jobs.last()
    assert raised.value.__notes__ == [f"job {job.job_id}"]
    assert (job.outcome, job.total) == ("failed", 0)
    assert "the disk is gone" in job.reason


def test_slow_lines_wait_for_no_full_message(
    jobs: ClientJobs, store: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_stats, "MESSAGE_S", 0.0)

    def slow() -> Iterator[str]:
        yield from questions(2)
        until(lambda: store.last(1)[0].total)
        yield "the last"

    assert jobs.submit(slow(), namespace="docs").get().total == 3


# Looking and steering


def test_a_job_is_paused_resumed_cancelled_and_answered_again(jobs: ClientJobs, store: Jobs) -> None:
    handle = jobs.submit(questions(3), namespace="docs")
    assert handle.pause().state == "paused"
    assert handle.resume().state == "queued"
    assert handle.cancel().state == "cancelling"
    store.end(handle.job_id, Outcome.CANCELLED, now_ms=100)
    assert [line["status"] for line in handle.results()] == ["cancelled"] * 3
    assert jobs.retry(handle.job_id, ["expired"]) == 3
    ended(store, handle.job_id, {2: result("failed")})
    assert handle.wait(20).counts["failed"] == 1
    assert jobs.retry(handle.job_id) == 1
    later = jobs.submit(questions(1), namespace="docs")
    assert [job.job_id for job in jobs.last(2)] == [later.job_id, handle.job_id]


def test_errors_come_as_the_clients_own(jobs: ClientJobs, store: Jobs) -> None:
    handle = jobs.submit(questions(1), namespace="docs")
    calls: list[Callable[[str], Any]] = [jobs.get, jobs.pause, jobs.resume, jobs.cancel, jobs.retry]
    calls.append(lambda job_id: list(jobs.results(job_id)))
    for call in calls:
        with pytest.raises(NoSuchJob, match="no job 'absent'"):
            call("absent")
    with pytest.raises(WrongJobState, match="is queued; this is possible while it is ended"):
        jobs.retry(handle.job_id)
    with pytest.raises(InvalidJob, match="only: one or more of failed, expired, degraded"):
        jobs.retry(handle.job_id, ["complete"])  # type: ignore[list-item]
    with pytest.raises(NotEnded, match="is queued: 0 of 1 lines are done"):
        handle.wait(0)


def test_results_are_read_while_the_job_runs_from_any_line(jobs: ClientJobs, store: Jobs) -> None:
    handle = jobs.submit(questions(200), namespace="docs")
    answered(store, handle.job_id, segments=2)
    assert [line["line"] for line in handle.results()] == list(range(1, 129))
    follows = handle.results(after=120, wait=True)
    assert [next(follows)["line"] for _ in range(8)] == list(range(121, 129))
    late = threading.Timer(0.3, lambda: ended(store, handle.job_id))
    late.start()
    assert [line["line"] for line in follows] == list(range(129, 201))
    late.join()


# What can go wrong


@pytest.mark.slow
def test_any_call_may_be_done_twice_and_leaves_nothing_in_redis(
    jobs: ClientJobs, store: Jobs, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the sweeper had died with the first reply to each call."""
    reply, heard = ServiceCalls._reply, set[str]()

    def loses_the_first(self: ServiceCalls, message: Any) -> dict[str, Any]:
        answer = reply(self, message)
        if message.caller in heard:
            return answer
        heard.add(message.caller)
        return {"error": "unavailable", "message": "the sweeper has died"}

    monkeypatch.setattr(ServiceCalls, "_reply", loses_the_first)
    monkeypatch.setattr(service_calls, "AGAIN_S", 0.05)
    monkeypatch.setattr(input_stats, "MESSAGE_BYTES", 2_000)
    handle = jobs.submit(questions(100), namespace="docs")
    assert (handle.get().state, handle.get().total) == ("queued", 100)
    assert store.send(handle.job_id, now_ms=1, lease_ms=1)
    jobs._call("begin", job_id=handle.job_id, segments=store.get(handle.job_id).segments)
    states = [handle.pause().state, handle.resume().state, handle.cancel().state]
    assert states == ["paused", "queued", "cancelling"]
    until(lambda: redis_client.keys(JOB_COMMANDS) == [])
    assert all(redis_client.pttl(key) > 0 for key in redis_client.keys(JOB_REPLY + "*"))


@pytest.mark.slow
def test_a_locked_database_is_waited_for(
    jobs: ClientJobs, store: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, failures = Jobs.add, [JobsUnavailable("database is locked")] * 2

    def locked(*args: Any, **options: Any) -> None:
        if failures:
            raise failures.pop()
        add(*args, **options)

    monkeypatch.setattr(Jobs, "add", locked)
    assert jobs.submit(questions(3), namespace="docs").get().total == 3
    assert store.active()
    monkeypatch.setattr(service_calls, "REPLY_S", 2)
    monkeypatch.setattr(Jobs, "last", locked)
    failures += [JobsUnavailable("database is locked")] * 99
    with pytest.raises(ServiceUnavailable, match="database is locked"):
        jobs.last()


def test_without_a_sweeper_nothing_hangs(jobs: ClientJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_calls, "REPLY_S", 0.2)
    with pytest.raises(ServiceUnavailable, match="is `chorale sweeper` running"):
        jobs.last()


@pytest.mark.parametrize("own_redis_server", [{"maxmemory": "8mb"}], indirect=True)
def test_lines_do_not_fill_redis(own_redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_calls, "POLL_S", 0.1)
    with own_redis_server.client() as redis:
        for number in range(60):
            redis.set(f"ballast {number}", "x" * 100_000)
        sent = service_calls.ServiceCall(
            redis, "add", socket_timeout_s=2, job_id="job", first=0, segments=["x" * 256_000]
        )
        with pytest.raises(QueueFull, match="no room for these lines of a job"):
            sent.result(for_s=0.2)


def test_unreadable_or_unknown_calls_end_nothing(jobs: ClientJobs, store: Jobs, redis_client: Redis) -> None:
    command = {"do": "get", "caller": "f" * 32, "number": 1, "given": {}}
    others = [{**command, "do": "to_wire"}, {**command, "do": "__init__"}, {**command, "caller": "../x"}]
    redis_client.lpush(JOB_COMMANDS, b"\xff", "[]", *map(json.dumps, [command, *others]))
    assert jobs.last() == []
    replies = [json.loads(reply) for reply in redis_client.lrange(JOB_REPLY + "f" * 32, 0, -1)]
    assert [reply["error"] for reply in replies] == ["invalid_job", "unknown_command", "unknown_command"]
