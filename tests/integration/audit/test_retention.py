"""Old requests leave the audit tables by themselves."""

from __future__ import annotations

import hmac
import subprocess
import threading
import time
from pathlib import Path

import pytest
import redis
from sqlalchemy import Engine

from audit import retention, table_deletion
from audit.database import open_database
from audit.drainer import Drainer
from audit.queries import last, show
from audit.retention import Retention
from audit.schema import upgrade
from tests.support.command_line import command
from tests.support.ledger.audit_entries import make_request, put, whole_entry
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

DAY_S = 86_400


@pytest.fixture
def trail(redis_client: redis.Redis, engine: Engine) -> Engine:
    """Four requests: of this moment, and one, two and three days old."""
    now_ms = time.time_ns() // 1_000_000
    for days in range(4):
        entry = whole_entry(make_request(request_id=f"r{days}"), accepted_at_ms=now_ms - days * DAY_S * 1_000)
        put(redis_client, entry)
    Drainer(redis_client, engine, keep_texts=True).drain_once(1)
    assert left(engine) == ["r0", "r1", "r2", "r3"]
    return engine


def left(engine: Engine) -> list[str]:
    return sorted(line.request_id for line in last(engine, 100))


def test_requests_older_than_the_time_to_keep_are_deleted_and_the_others_stay(
    trail: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several transactions, between which drainers can write."""
    monkeypatch.setattr(table_deletion, "AT_ONCE", 1)
    stop = threading.Event()
    thread = threading.Thread(target=Retention(trail, keep_s=1.5 * DAY_S).run, args=(stop,))
    thread.start()
    try:
        until(lambda: left(trail) == ["r0", "r1"])
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()
    assert left(trail) == ["r0", "r1"]


def test_a_database_that_is_away_is_asked_again(trail: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVERY_S", 0.01)
    stop, calls = threading.Event(), iter([OSError("away"), OSError("away")])

    def prepare() -> None:
        if (error := next(calls, None)) is not None:
            raise error
        stop.set()

    Retention(trail, keep_s=2.5 * DAY_S, prepare=prepare).run(stop)
    assert left(trail) == ["r0", "r1", "r2"]


@pytest.mark.slow
def test_the_process_that_drains_keeps_what_its_settings_say(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """A request of three days ago leaves the tables, and the question of a new one cannot be guessed."""
    url = f"sqlite:///{tmp_path / 'audit.db'}"
    upgrade(url)
    engine = open_database(url)
    now_ms = time.time_ns() // 1_000_000
    with redis_server.client() as client:
        client.flushall()
        put(client, whole_entry(make_request(request_id="old"), accepted_at_ms=now_ms - 3 * DAY_S * 1_000))
        Drainer(client, engine, keep_texts=True).drain_once(1)
        put(client, whole_entry(make_request("am I pregnant?", request_id="new"), accepted_at_ms=now_ms))
    settings = {
        "AUDIT_KEEP": "2d",
        "AUDIT_TEXTS": "false",
        "HOME": str(tmp_path),
        "REDIS_URL": redis_server.url,
    }
    given = command(
        "sweeper", "--only", "drain", **{f"CHORALE_{name}": value for name, value in settings.items()}
    )
    with subprocess.Popen(**given) as process:
        try:
            until(lambda: left(engine) == ["new"], 60)
        finally:
            process.terminate()
    found = show(engine, "new")
    engine.dispose()
    assert found is not None
    key = (tmp_path / "audit_key").read_bytes()
    assert found.questions[0].text_hash == hmac.digest(key, b"am I pregnant?", "sha256").hex()
