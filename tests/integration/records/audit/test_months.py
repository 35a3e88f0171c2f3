"""On PostgreSQL each audit table has a partition for each month.  An old partition is dropped whole."""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chorale_client.keys import OUTBOX
from redis import Redis
from sqlalchemy import Engine, event, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from models.tables.audit import AuditTable
from records.audit import deletion
from records.audit.deletion import Retention
from records.audit.drainer import Drainer
from records.audit.months import MonthsAhead, add_months
from records.audit.queries import last, show
from records.database import open_database, upgrade
from records.judgements import store
from records.judgements.feedback import Event, Feedback
from tests.support.command_line import command
from tests.support.ledger.audit_entries import make_request, put, whole_entry
from tests.support.servers.databases import empty_database
from tests.support.servers.postgresql_server import PostgresqlServer
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

TABLES = ("chorale_request", "chorale_question", "chorale_branch", "chorale_hit")
NOVEMBER, DECEMBER = datetime(2020, 11, 5, tzinfo=UTC), datetime(2020, 12, 31, 23, 59, tzinfo=UTC)
DECEMBER_MS, JANUARY_MS = 1_606_780_800_000, 1_609_459_200_000
"""2020-12-01 and 2021-01-01, 00:00 UTC (`date -u -d 2020-12-01 +%s`)."""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with empty_database("postgresql", tmp_path) as url:
        upgrade(url)
        yield url


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """Has the months November 2020 to January 2021."""
    engine = open_database(url)
    add_months(engine, NOVEMBER)
    add_months(engine, DECEMBER)
    yield engine
    engine.dispose()


def drain(client: Redis, engine: Engine, moments: dict[str, int]) -> None:
    """Writes requests that were accepted at these milliseconds."""
    put(
        client,
        *(
            whole_entry(make_request(request_id=name), accepted_at_ms=at_ms)
            for name, at_ms in moments.items()
        ),
    )
    assert Drainer(client, engine, keep_texts=True).drain_once(1) == len(moments)


def partitions_of(engine: Engine, table: str) -> dict[str, set[str]]:
    """By partition, the ids of the requests that have rows in it."""
    ids: dict[str, set[str]] = {}
    with engine.connect() as connection:
        for name, request_id in connection.execute(
            text(f"SELECT tableoid::regclass::text, request_id FROM {table}")
        ):
            ids.setdefault(name, set()).add(request_id)
    return ids


def tables(engine: Engine) -> set[str]:
    """The partitions by month in pg_class."""
    with engine.connect() as connection:
        names = connection.scalars(
            text("SELECT relname FROM pg_class WHERE relkind = 'r' AND relispartition")
        )
        return {name for name in names if not name.endswith("_other")}


def request_ids(engine: Engine) -> list[str]:
    return sorted(row.request_id for row in last(engine, 100))


def test_the_rows_of_each_month_lie_in_its_partition_and_those_of_odd_moments_in_the_default_one(
    redis_client: Redis, engine: Engine
) -> None:
    moments = {
        "november": DECEMBER_MS - 1,
        "december": DECEMBER_MS,
        "new-year": JANUARY_MS - 1,
        "january": JANUARY_MS,
        "1970": 0,
        "2286": 9_999_999_999_999,
    }
    drain(redis_client, engine, moments)
    for table in TABLES:
        assert partitions_of(engine, table) == {
            f"{table}_2020_11": {"november"},
            f"{table}_2020_12": {"december", "new-year"},
            f"{table}_2021_01": {"january"},
            f"{table}_other": {"1970", "2286"},
        }
    for name in moments:
        row = show(engine, name)
        assert row is not None
        assert (len(row.questions[0].hits), len(row.branches)) == (1, 3)


@pytest.mark.slow
def test_a_sweeper_adds_this_month_and_the_next_one_before_it_writes(
    redis_client: Redis, redis_server: RedisServer, url: str, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    put(
        redis_client, whole_entry(make_request(request_id="now"), accepted_at_ms=int(now.timestamp()) * 1_000)
    )
    engine = open_database(url)
    settings = {
        "CHORALE_AUDIT_URL": url,
        "CHORALE_HOME": str(tmp_path),
        "CHORALE_REDIS_URL": redis_server.url,
    }
    with subprocess.Popen(**command("sweeper", "--only", "drain", **settings)) as process:
        try:
            until(lambda: request_ids(engine) == ["now"], 60)
        finally:
            process.terminate()
    months = [(now.year, now.month), (now.year + now.month // 12, now.month % 12 + 1)]
    assert tables(engine) == {f"{table}_{year}_{month:02}" for table in TABLES for year, month in months}
    assert partitions_of(engine, "chorale_hit") == {f"chorale_hit_{now:%Y_%m}": {"now"}}
    engine.dispose()


def test_two_processes_may_add_the_same_month_at_once(engine: Engine, url: str) -> None:
    before = tables(engine)
    for year in range(2030, 2036):
        together = threading.Barrier(2)

        def add(engine: Engine, year: int = year, together: threading.Barrier = together) -> None:
            together.wait(10)
            add_months(engine, datetime(year, 3, 1, tzinfo=UTC))

        other = open_database(url)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(add, [engine, other]))
        other.dispose()
    new = {
        f"{table}_{year}_{month}" for table in TABLES for year in range(2030, 2036) for month in ("03", "04")
    }
    assert tables(engine) == before | new


@pytest.fixture
def nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a drainer has taken counts as lost at once."""
    monkeypatch.setattr("records.audit.drainer.LOST_AFTER_MS", 0)


@pytest.mark.usefixtures("nothing_is_waited_for")
def test_entries_at_the_end_of_a_month_that_two_drainers_have_are_written_once(
    redis_client: Redis, engine: Engine, url: str
) -> None:
    """The second one takes what the first one has committed, and has not yet deleted from the outbox."""
    reported: list[str] = []

    def drainer(of: Engine, **options: Any) -> Drainer:
        def report(ended: Sequence[Any]) -> None:
            reported.extend(one.request_id for one in ended)

        return Drainer(redis_client, of, keep_texts=True, on_written=report, **options)

    moments = {"november": DECEMBER_MS - 1, "december": DECEMBER_MS, "odd": 0}
    put(
        redis_client,
        *(whole_entry(make_request(request_id=name), accepted_at_ms=at) for name, at in moments.items()),
    )
    other = open_database(url)
    first, entries = drainer(engine), redis_client.xlen(OUTBOX)

    def second(_connection: object) -> None:
        if thread.ident is None:
            thread.start()
            # It waits for the first one's transaction, so an unlimited join would be a deadlock.
            thread.join(0.3)

    thread = threading.Thread(target=drainer(other).drain_once, args=(1,))
    event.listen(engine, "commit", second)
    assert first.drain_once(1) == entries
    thread.join(10)
    assert not thread.is_alive()
    other.dispose()
    assert sorted(reported) == ["december", "november", "odd"]
    for table in TABLES:
        rows = 3 if table == "chorale_branch" else 1
        with engine.connect() as connection:
            assert connection.scalar(text(f"SELECT count(*) FROM {table}")) == 3 * rows
    assert redis_client.xlen(OUTBOX) == 0


def deleted_rows(engine: Engine) -> int:
    """How many rows of the audit tables PostgreSQL has deleted one by one."""
    engine.dispose()  # a connection reports what it did at its end
    with engine.connect() as connection:
        query = "SELECT sum(n_tup_del) FROM pg_stat_user_tables WHERE relname ~ '^chorale_(request|question|branch|hit)_'"
        return int(connection.scalar(text(query)) or 0)


def test_old_months_are_dropped_without_deleting_rows_and_the_one_that_is_not_over_is_deleted_row_by_row(
    redis_client: Redis, engine: Engine
) -> None:
    before = tables(engine)
    moments = {"november": DECEMBER_MS - 1, "early": DECEMBER_MS, "late": DECEMBER_MS + 86_400_000, "odd": 0}
    drain(redis_client, engine, moments)
    assert deletion.remove_older(engine, DECEMBER_MS + 1) == 3
    assert tables(engine) == before - {f"{table}_2020_11" for table in TABLES}
    assert request_ids(engine) == ["late"]
    # Of "early" and of "odd" a request, a question, three branches and a hit each.
    assert deleted_rows(engine) == 12


def test_retention_drops_all_old_months_with_the_feedback_on_their_hits(
    redis_client: Redis, engine: Engine
) -> None:
    now_ms = time.time_ns() // 1_000_000
    before = tables(engine)
    drain(redis_client, engine, {"old": DECEMBER_MS, "new": now_ms})
    for name in ("old", "new"):
        question = store.questions(engine, "default", [name])[name, 0]
        grade = Event(request_id=name, action="grade", document_id="docs:guide.md", grade=3)
        store.put(engine, [Feedback.on(question, grade, now_ms, "k", "judge")])
    assert Retention(engine, keep_s=86_400 * 60).prune_once() == 0
    assert {name[-7:] for name in before - tables(engine)} == {"2020_11", "2020_12", "2021_01"}
    assert [item.request_id for item in store.listed(engine, "default")] == ["new"]
    assert (request_ids(engine), deleted_rows(engine)) == (["new"], 0)


def test_a_month_is_not_dropped_while_feedback_on_it_is_being_written(
    redis_client: Redis, engine: Engine
) -> None:
    drain(redis_client, engine, {"old": DECEMBER_MS})
    with deletion.keeping_rows(engine) as connection:
        assert deletion.keep_rows(connection, ["old"]) == {"old"}
        with pytest.raises(SQLAlchemyError, match="lock timeout"):
            deletion.remove_older(engine, JANUARY_MS)
    assert deletion.remove_older(engine, JANUARY_MS) == 1


@pytest.mark.parametrize(("field", "value"), [("namespace", "law"), ("request_id", "november")])
def test_requests_are_erased_in_all_months(
    redis_client: Redis, engine: Engine, field: str, value: str
) -> None:
    moments = {"november": DECEMBER_MS - 1, "december": DECEMBER_MS, "odd": 0}
    for name, at_ms in moments.items():
        put(redis_client, whole_entry(make_request(request_id=name, namespace="law"), accepted_at_ms=at_ms))
    Drainer(redis_client, engine, keep_texts=True).drain_once(1)
    erased = 3 if field == "namespace" else 1
    assert deletion.remove_rows(engine, deletion.requests_of(field, value)) == erased
    with engine.connect() as connection:
        for table in AuditTable.metadata.tables.values():
            rows = 3 if table.name == "chorale_branch" else 1
            assert connection.scalar(select(func.count()).select_from(table)) == rows * (3 - erased)


def test_a_month_that_began_in_the_default_partition_stays_there_and_the_next_one_is_added(
    redis_client: Redis, engine: Engine
) -> None:
    drain(redis_client, engine, {"early": JANUARY_MS + 40 * 86_400_000})  # in February 2021
    before = tables(engine)
    add_months(engine, datetime(2021, 2, 10, tzinfo=UTC))
    assert tables(engine) - before == {f"{table}_2021_03" for table in TABLES}
    assert request_ids(engine) == ["early"]


@pytest.mark.slow
def test_a_login_that_may_not_create_tables_loses_no_row_and_says_so_once(
    redis_client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """It may read and write rows; its retention deletes them one by one."""
    caplog.set_level(logging.INFO)
    with PostgresqlServer() as server, server.database() as name:
        upgrade(server.url(name))
        server.execute("CREATE ROLE weak LOGIN")
        server.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO weak", name)
        upgrade(server.url(name, user="weak"))
        engine = open_database(server.url(name, user="weak"))
        duty = MonthsAhead(engine)
        stop = threading.Event()
        thread = threading.Thread(target=duty.run, args=(stop,))
        thread.start()
        now_ms = time.time_ns() // 1_000_000
        drain(redis_client, engine, {"now": now_ms})
        stop.set()
        thread.join(10)
        assert partitions_of(engine, "chorale_hit") == {"chorale_hit_other": {"now"}}
        (line,) = [record.message for record in caplog.records if "cannot be added" in record.message]
        assert "permission denied for schema public" in line
        owner = open_database(server.url(name))
        add_months(owner, NOVEMBER)
        owner.dispose()
        drain(redis_client, engine, {"old": DECEMBER_MS - 1})
        assert deletion.remove_older(engine, DECEMBER_MS) == 1
        assert (request_ids(engine), "chorale_hit_2020_11" in tables(engine)) == (["now"], True)
        engine.dispose()
