"""Nothing is lost or written twice after kills, locks, and failures of the database or Redis."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from chorale_client.keys import OUTBOX
from redis import Redis
from redis.exceptions import OutOfMemoryError
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import OperationalError

from records.audit.drainer import Drainer
from records.audit.outbox import UNREADABLE
from records.audit.queries import last
from records.database import open_database, upgrade
from tasks.worker.sweeper_process import SCHEMA_WAIT_S
from tests.support.ledger.audit_entries import make_request, put, whole_entry
from tests.support.ledger.audit_rows import count
from tests.support.servers.database_process import line_of, started
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until


def add(client: Redis, *names: str) -> None:
    put(client, *(whole_entry(make_request(request_id=name)) for name in names))


def written(engine: Engine) -> set[str]:
    return {line.request_id for line in last(engine, 1_000)}


@contextmanager
def running(drainer: Drainer) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=drainer.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive(), "run returns soon after stop"


@pytest.mark.slow
def test_a_drainer_killed_between_commit_and_delete_writes_the_request_once(
    redis_client: Redis, redis_server: RedisServer, engine: Engine, database_url: str
) -> None:
    add(redis_client, "a", "b")
    with started("drain_and_die", database_url, redis_server.url) as draining:
        assert draining.process.wait(30) == -signal.SIGKILL
    assert (count(engine), redis_client.xlen(OUTBOX)) == (2, 2)
    add(redis_client, "c")
    drainer = Drainer(redis_client, engine, keep_texts=True)
    assert drainer.drain_once(1) == 1
    until(lambda: drainer.drain_once(1) == 2)
    assert (written(engine), count(engine), redis_client.xlen(OUTBOX)) == ({"a", "b", "c"}, 3, 0)


@pytest.mark.slow
def test_a_drainer_killed_at_any_point_writes_each_request_once(
    redis_client: Redis, redis_server: RedisServer, engine: Engine, database_url: str
) -> None:
    names = [f"request-{number}" for number in range(150)]
    add(redis_client, *names)
    with started("drain", database_url, redis_server.url) as process:
        assert [line_of(process) for _ in range(4)] == ["batch"] * 4
    assert redis_client.xlen(OUTBOX) > 0, "it was killed before the end"
    drainer = Drainer(redis_client, engine, keep_texts=True)
    until(lambda: not (drainer.drain_once(1) or redis_client.xlen(OUTBOX)))
    assert (written(engine), count(engine), redis_client.xlen(UNREADABLE)) == (set(names), 150, 0)


@pytest.mark.slow
def test_requests_wait_and_one_line_is_logged_while_another_process_locks_the_database(
    redis_client: Redis, engine: Engine, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    drainer = Drainer(redis_client, engine, keep_texts=True)
    with started("hold", database_url) as holder:
        assert line_of(holder) == "locked"
        add(redis_client, "a", "b")
        with running(drainer):
            until(lambda: "wait in the outbox" in caplog.text)
            assert redis_client.xlen(OUTBOX) == 2
            holder.process.kill()
            until(lambda: redis_client.xlen(OUTBOX) == 0)
            until(lambda: "works again after" in caplog.text)
    assert written(engine) == {"a", "b"}
    assert caplog.text.count("wait in the outbox") == 1
    assert "INSERT" not in caplog.text, "statements and their values stay out of the log"


@pytest.mark.slow
def test_a_first_upgrade_of_ordinary_length_is_waited_for_without_a_warning(
    redis_client: Redis, engine: Engine, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process takes three seconds for it, as on a busy machine."""
    add(redis_client, "a")
    prepare = partial(upgrade, database_url, wait_s=SCHEMA_WAIT_S)
    with started("hold_schema", database_url) as holder:
        assert line_of(holder) == "locked"
        with running(Drainer(redis_client, engine, keep_texts=True, prepare=prepare)):
            time.sleep(3)
            assert caplog.text == ""
            holder.process.kill()
            until(lambda: redis_client.xlen(OUTBOX) == 0)
    assert written(engine) == {"a"}


def test_a_database_created_later_gets_all(
    redis_client: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/not-yet/audit.db"
    engine = open_database(url)
    attempts: list[object] = []
    event.listen(engine, "do_connect", lambda *connecting: attempts.append(connecting))
    add(redis_client, "a")
    with running(Drainer(redis_client, engine, keep_texts=True)):
        until(lambda: len(attempts) >= 3)
        upgrade(url)
        until(lambda: redis_client.xlen(OUTBOX) == 0)
    assert written(engine) == {"a"}
    assert "unable to open database file" in caplog.text
    assert caplog.text.count("wait in the outbox") == 1
    engine.dispose()


@pytest.fixture
def file_engine(tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path}/audit.db"
    upgrade(url)
    engine = open_database(url, pool_size=1, max_overflow=0)
    yield engine
    engine.dispose()


def test_requests_wait_in_the_outbox_while_the_disk_is_full(redis_client: Redis, file_engine: Engine) -> None:
    def limit_pages(pages: int) -> None:
        with file_engine.connect() as connection:
            connection.execute(text(f"PRAGMA max_page_count = {pages}"))

    # With no additional pages allowed, SQLite reports "database or disk is full".
    limit_pages(1)
    names = [f"request-{number}" for number in range(40)]
    add(redis_client, *names)
    drainer = Drainer(redis_client, file_engine, keep_texts=True)
    with pytest.raises(OperationalError, match="full"):
        drainer.drain_once(1)
    assert (count(file_engine), redis_client.xlen(OUTBOX)) == (0, 40)
    limit_pages(1_000_000)
    assert drainer.drain_once(1) == 40
    assert written(file_engine) == set(names)


def test_an_unreadable_entry_that_a_full_redis_keeps_holds_no_other_back(
    own_redis_server: RedisServer, file_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("records.audit.drainer.LOST_AFTER_MS", 50)
    names = [f"request-{number}" for number in range(100)]
    with own_redis_server.client() as client:
        client.xadd(OUTBOX, {"hello": "world"})
        add(client, *names)
        client.config_set("maxmemory", 1)
        drainer = Drainer(client, file_engine, keep_texts=True)

        def drain() -> bool:
            with suppress(OutOfMemoryError):
                drainer.drain_once(1)
            return count(file_engine) == len(names)

        until(drain)
        assert (client.xlen(OUTBOX), client.xlen(UNREADABLE)) == (1, 0)
        client.config_set("maxmemory", 0)
        until(lambda: drainer.drain_once(1) == 1)
        assert (client.xlen(OUTBOX), client.xlen(UNREADABLE)) == (0, 1)


@pytest.mark.parametrize("own_redis_server", [{"appendonly": True, "appendfsync": "always"}], indirect=True)
def test_draining_continues_after_redis_died_and_came_back(
    own_redis_server: RedisServer, file_engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        own_redis_server.client() as client,
        own_redis_server.client() as other,
        running(Drainer(client, file_engine, keep_texts=True)),
    ):
        add(other, "a")
        until(lambda: count(file_engine) == 1)
        own_redis_server.kill()
        until(lambda: "wait in the outbox" in caplog.text)
        own_redis_server.start()
        add(other, "b")
        until(lambda: count(file_engine) == 2)
    assert written(file_engine) == {"a", "b"}
