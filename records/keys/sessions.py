"""Logins of the console, in the database of the keys: a session ends with its key, and outlives every Redis."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass

from sqlalchemy import Engine, delete, insert, select

from models.tables.installation import session_table as sessions

LASTS_S = 8 * 3_600


@dataclass(frozen=True, slots=True)
class Login:
    key_id: str
    token: str
    """What every form has to send (CSRF)."""


def begin(database: Engine, key_id: str) -> str:
    """The random id of a new session, which only its holder has.  Raises SQLAlchemyError."""
    id_, now_ms = secrets.token_urlsafe(32), _now_ms()
    ends_at_ms = now_ms + LASTS_S * 1_000
    row = {
        "hashed": _hash(id_),
        "key_id": key_id,
        "token": secrets.token_urlsafe(32),
        "ends_at_ms": ends_at_ms,
    }
    with database.begin() as connection:
        connection.execute(delete(sessions).where(sessions.c.ends_at_ms <= now_ms))
        connection.execute(insert(sessions).values(row))
    return id_


def find(database: Engine, session_id: str) -> Login | None:
    """None for an unknown session, and for one that has ended.  Raises SQLAlchemyError."""
    is_here = (sessions.c.hashed == _hash(session_id)) & (sessions.c.ends_at_ms > _now_ms())
    with database.connect() as connection:
        row = connection.execute(select(sessions.c.key_id, sessions.c.token).where(is_here)).first()
    return None if row is None else Login(row.key_id, row.token)


def end(database: Engine, session_id: str) -> None:
    """Raises SQLAlchemyError."""
    with database.begin() as connection:
        connection.execute(delete(sessions).where(sessions.c.hashed == _hash(session_id)))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _hash(session_id: str) -> str:
    # A fast hash suffices: nobody can guess 256 random bits.
    return hashlib.sha256(session_id.encode()).hexdigest()
