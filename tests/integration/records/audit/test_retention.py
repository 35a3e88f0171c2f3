"""Old requests leave the audit tables by themselves, and others when somebody deletes them: completely, and no others."""

from __future__ import annotations

import hmac
import subprocess
import threading
import time
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import Engine, func, select

from models.tables.audit import AuditTable
from records.audit import deletion
from records.audit.deletion import Retention
from records.audit.drainer import Drainer
from records.audit.queries import last, show
from records.database import open_database, upgrade
from tests.support.command_line import command
from tests.support.ledger.audit_entries import make_request, put, whole_entry
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

DAY_S = 86_400
REQUESTS = {
    "r0": ("customer-1", "law"),
    "r1": ("customer-2", "law"),
    "r2": ("customer-1", "news"),
    "r3": (None, "law"),
}
"""The correlation id and the namespace of each."""


@pytest.fixture
def trail(redis_client: Redis, engine: Engine) -> Engine:
    """Four requests: of this moment, and one, two and three days old."""
    now_ms = time.time_ns() // 1_000_000
    for days, (name, (correlation, namespace)) in enumerate(REQUESTS.items()):
        request = make_request("who?", request_id=name, correlation_id=correlation, namespace=namespace)
        put(redis_client, whole_entry(request, accepted_at_ms=now_ms - days * DAY_S * 1_000))
    Drainer(redis_client, engine, keep_texts=True).drain_once(1)
    assert request_ids(engine) == [*REQUESTS]
    return engine


def request_ids(engine: Engine) -> list[str]:
    return sorted(line.request_id for line in last(engine, 100))


def test_requests_older_than_the_time_to_keep_are_deleted_and_the_others_stay(
    trail: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several transactions, between which drainers can write; and a database that is away is asked again."""
    monkeypatch.setattr(deletion, "ROWS_AT_ONCE", 1)
    monkeypatch.setattr(deletion, "PRUNE_EVERY_S", 0.01)
    failures = [OSError("away"), OSError("away")]

    def prepare() -> None:
        if failures:
            raise failures.pop()

    stop = threading.Event()
    old = Retention(trail, keep_s=1.5 * DAY_S, prepare=prepare)
    thread = threading.Thread(target=old.run, args=(stop,))
    thread.start()
    try:
        until(lambda: request_ids(trail) == ["r0", "r1"])
    finally:
        stop.set()
        thread.join(10)
    assert (thread.is_alive(), failures, request_ids(trail)) == (False, [], ["r0", "r1"])


@pytest.mark.parametrize(
    ("field", "value", "stays"),
    [
        ("request_id", "r1", ["r0", "r2", "r3"]),
        ("correlation_id", "customer-1", ["r1", "r3"]),
        ("namespace", "law", ["r2"]),
        ("namespace", "nobody", ["r0", "r1", "r2", "r3"]),
    ],
)
def test_requests_are_deleted_by_one_field_and_leave_nothing_in_any_table(
    trail: Engine, monkeypatch: pytest.MonkeyPatch, field: str, value: str, stays: list[str]
) -> None:
    """A deletion that needs several transactions leaves nothing, too."""

    def rows() -> dict[str, int]:
        tables = AuditTable.metadata.tables
        with trail.connect() as connection:
            return {
                name: connection.scalar(select(func.count()).select_from(tables[name])) or 0
                for name in tables
            }

    monkeypatch.setattr(deletion, "ROWS_AT_ONCE", 1)
    before = rows()
    assert before["chorale_hit"] == 4
    which = deletion.requests_of(field, value)
    assert deletion.count_matching(trail, which) == 4 - len(stays)
    assert deletion.remove_rows(trail, which) == 4 - len(stays)
    assert request_ids(trail) == stays
    assert rows() == {name: count * len(stays) // 4 for name, count in before.items()}


@pytest.mark.slow
def test_the_draining_process_keeps_what_its_settings_say(redis_server: RedisServer, tmp_path: Path) -> None:
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
    variables = {f"CHORALE_{name}": value for name, value in settings.items()}
    with subprocess.Popen(**command("sweeper", "--only", "drain", **variables)) as process:
        try:
            until(lambda: request_ids(engine) == ["new"], 60)
        finally:
            process.terminate()
    row = show(engine, "new")
    engine.dispose()
    assert row is not None
    key = (tmp_path / "audit_key").read_bytes()
    assert row.questions[0].text_hash == hmac.digest(key, b"am I pregnant?", "sha256").hex()
