"""Logins of the console in SQL, on each kind of database."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import Engine, func, select

from models.tables.installation import session_table
from records.keys import sessions


def test_a_session_is_found_by_its_id_until_it_is_ended(engine: Engine) -> None:
    id_, other = (sessions.begin(engine, key_id) for key_id in ("k1", "k2"))
    session = sessions.find(engine, id_)
    assert session is not None
    assert session.key_id == "k1"
    assert session != sessions.find(engine, other)
    sessions.end(engine, id_)
    assert sessions.find(engine, id_) is None
    assert sessions.find(engine, other) is not None


def test_a_session_ends_after_its_time_and_the_next_login_deletes_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = sessions.begin(engine, "k1")
    eight_hours_later_ms = time.time_ns() // 1_000_000 + 8 * 3_600_000
    monkeypatch.setattr(sessions, "_now_ms", lambda: eight_hours_later_ms)
    assert sessions.find(engine, id_) is None
    sessions.begin(engine, "k1")
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(session_table)) == 1
