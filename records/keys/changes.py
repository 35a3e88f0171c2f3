"""The changes that people made through the console, and the keys that made them: written after the change, and kept
in the database of the audit trail."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields

from sqlalchemy import Engine, insert, select

from models.tables.installation import change_table as changes
from records.keys.grant import Grant


@dataclass(frozen=True, slots=True)
class Change:
    at_ms: int
    """Milliseconds since 1970."""
    key_id: str
    key_name: str
    action: str
    """Such as `pause job`."""
    subject: str
    """The id of what was changed."""


def record(database: Engine, grant: Grant, key_name: str, action: str, subject: str) -> None:
    """Raises SQLAlchemyError."""
    row = {
        "change_id": uuid.uuid4().hex,
        "at_ms": time.time_ns() // 1_000_000,
        "key_id": grant.key_id,
        "key_name": key_name,
        "tenant": grant.tenant,
        "action": action,
        "subject": subject,
    }
    with database.begin() as connection:
        connection.execute(insert(changes).values(row))


def last(database: Engine, n: int) -> Sequence[Change]:
    """The `n` latest changes, newest first.  Raises SQLAlchemyError."""
    columns = [changes.c[field.name] for field in fields(Change)]
    newest = select(*columns).order_by(changes.c.at_ms.desc(), changes.c.change_id).limit(n)
    with database.connect() as connection:
        return [Change(**row._mapping) for row in connection.execute(newest)]
