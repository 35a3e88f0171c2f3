"""Deleting requests removes them completely, and no others."""

from __future__ import annotations

import pytest
import redis
from sqlalchemy import Engine, func, select

from audit import table_deletion
from audit.drainer import Drainer
from audit.queries import last
from models.audit_tables import AuditTable
from tests.support.ledger.audit_entries import ACCEPTED_AT_MS, make_request, put, whole_entry

DAY_MS = 86_400_000


@pytest.fixture
def trail(redis_client: redis.Redis, engine: Engine) -> Engine:
    """One request a day, the newest last."""
    for age, (name, correlation, namespace) in enumerate(
        [
            ("a", "customer-1", "law"),
            ("b", "customer-2", "law"),
            ("c", "customer-1", "news"),
            ("d", None, "law"),
        ]
    ):
        request = make_request("who?", request_id=name, correlation_id=correlation, namespace=namespace)
        put(redis_client, whole_entry(request, accepted_at_ms=ACCEPTED_AT_MS + age * DAY_MS))
    Drainer(redis_client, engine, keep_texts=True).drain_once(1)
    assert left(engine) == ["a", "b", "c", "d"]
    return engine


def left(engine: Engine) -> list[str]:
    return sorted(line.request_id for line in last(engine, 10_000))


def rows(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        return {
            name: connection.scalar(select(func.count()).select_from(table)) or 0
            for name, table in AuditTable.metadata.tables.items()
        }


def test_requests_older_than_the_limit_are_deleted_and_the_others_stay(trail: Engine) -> None:
    which = table_deletion.older_than(ACCEPTED_AT_MS + 2 * DAY_MS)
    assert table_deletion.count_matching(trail, which) == 2
    assert table_deletion.remove(trail, which) == 2
    assert left(trail) == ["c", "d"]
    assert table_deletion.remove(trail, which) == 0


@pytest.mark.parametrize(
    ("field", "value", "stays"),
    [
        ("request_id", "b", ["a", "c", "d"]),
        ("correlation_id", "customer-1", ["b", "d"]),
        ("namespace", "law", ["c"]),
        ("namespace", "nobody", ["a", "b", "c", "d"]),
    ],
)
def test_requests_are_deleted_by_one_field(trail: Engine, field: str, value: str, stays: list[str]) -> None:
    assert table_deletion.remove(trail, table_deletion.requests_of(field, value)) == 4 - len(stays)
    assert left(trail) == stays


def test_a_deleted_request_leaves_nothing_in_any_table(
    trail: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if several transactions are needed."""
    monkeypatch.setattr(table_deletion, "AT_ONCE", 1)
    of_four = rows(trail)
    assert table_deletion.remove(trail, table_deletion.requests_of("namespace", "law")) == 3
    of_one = {name: count // 4 for name, count in of_four.items()}
    assert of_one["chorale_hit"] > 0
    assert {name: count for name, count in rows(trail).items() if name in of_one and count} == {
        name: count for name, count in of_one.items() if count
    }
