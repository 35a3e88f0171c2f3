"""The rules of namespaces in SQL, in the database of the audit trail, and their copies in Redis.

Every change is a row, and the last one holds.  The rules are copied to Redis after each change, and again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from chorale_client.keys import RULES
from pydantic_core import to_json
from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError
from sqlalchemy import Connection, Engine, Row, delete, func, insert, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from models.duty import Duty
from models.errors import ServiceError
from models.rules import Rules
from models.tables.installation import rule_table as table
from records.database import available

MAX_VERSIONS = 1_000
"""Changes of a namespace that are kept."""
_ATTEMPTS = 5


class RulesUnavailable(ServiceError):
    """The database of the rules does not answer, or is locked."""


class RulesChanged(ServiceError):
    """The rules have another version than the caller has seen."""

    def __init__(self, namespace: str, version: int) -> None:
        super().__init__(
            f"the rules of {namespace!r} have changed: they have version {version}; read them again"
        )


@dataclass(frozen=True, slots=True)
class Version:
    """The rules of a namespace after one change."""

    namespace: str
    version: int = 0
    """0: no rules were ever written."""
    changed_at_ms: int = 0
    changed_by: str = ""
    rules: Rules = field(default_factory=Rules)


class RuleStore:
    """Thread-safe.  Every method raises RulesUnavailable if the database cannot be used."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def current(self, namespace: str) -> Version:
        with self._reading() as connection:
            return _current(connection, namespace)

    def all_current(self) -> list[Version]:
        newest = select(table.c.namespace, func.max(table.c.version).label("version")).group_by(
            table.c.namespace
        )
        last = newest.subquery()
        query = select(table).join(
            last, (table.c.namespace == last.c.namespace) & (table.c.version == last.c.version)
        )
        with self._reading() as connection:
            return [_version(row) for row in connection.execute(query)]

    def history(self, namespace: str, count: int) -> list[Version]:
        """The last changes, newest first."""
        with self._reading() as connection:
            return _newest(connection, namespace, count)

    def change(
        self, namespace: str, change: Callable[[Rules], Rules], *, by: str, expected: int | None = None
    ) -> Version:
        """Write what `change` makes of the rules; the same rules are not written again.

        Raises RulesChanged if the rules have another version than `expected`.
        """
        for _ in range(_ATTEMPTS):
            with available(self._engine.begin, RulesUnavailable, "rules") as connection:
                try:
                    return _changed(connection, namespace, change, by, expected)
                except IntegrityError:  # another process wrote this version
                    connection.rollback()
        raise RulesUnavailable(f"others keep changing the rules of {namespace!r}; try again")

    def _reading(self) -> AbstractContextManager[Connection]:
        return available(self._engine.connect, RulesUnavailable, "rules")


def _newest(connection: Connection, namespace: str, count: int) -> list[Version]:
    query = select(table).where(table.c.namespace == namespace).order_by(table.c.version.desc()).limit(count)
    return [_version(row) for row in connection.execute(query)]


def _current(connection: Connection, namespace: str) -> Version:
    return next(iter(_newest(connection, namespace, 1)), Version(namespace))


def _version(row: Row[Any]) -> Version:
    return Version(**{**row._mapping, "rules": Rules.model_validate(row.rules)})


def _changed(
    connection: Connection, namespace: str, change: Callable[[Rules], Rules], by: str, expected: int | None
) -> Version:
    before = _current(connection, namespace)
    rules = change(before.rules)
    if rules.model_dump_json() == before.rules.model_dump_json():  # the order counts
        return before  # also for a caller that repeats a change
    if expected is not None and expected != before.version:
        raise RulesChanged(namespace, before.version)
    after = Version(namespace, before.version + 1, time.time_ns() // 1_000_000, by, rules)
    written = rules.model_dump(mode="json", exclude_defaults=True)
    connection.execute(insert(table).values({**asdict(after), "rules": written}))
    old = (table.c.namespace == namespace) & (table.c.version <= after.version - MAX_VERSIONS)
    connection.execute(delete(table).where(old))
    return after


COPIED_EVERY_S = 10.0
"""A Redis that has lost its data has the rules again after this time."""


def copy_rules(redis: Redis, store: RuleStore, namespace: str | None = None) -> None:
    """Make the copy equal to the database, for one namespace or for all.  Raises RedisError and RulesUnavailable."""

    def write(trip: Pipeline) -> None:
        if namespace is None:
            before = cast("dict[bytes, bytes]", trip.hgetall(RULES))
            versions = store.all_current()
        else:
            copy = cast("bytes | None", trip.hget(RULES, namespace))
            before = {} if copy is None else {namespace.encode(): copy}
            versions = [version] if (version := store.current(namespace)).version else []
        copies = {copy.namespace.encode(): _version_wire(copy) for copy in versions}
        trip.multi()
        for name in before.keys() - copies.keys():
            trip.hdel(RULES, name)
        for name, text in copies.items():
            if before.get(name) != text:
                trip.hset(RULES, name, text)

    # Begun anew if somebody wrote the copy meanwhile, who may have read a newer version.
    redis.transaction(write, RULES)


def _version_wire(version: Version) -> bytes:
    rules: Any = version.rules.model_dump(mode="json", exclude_defaults=True)
    return to_json({"version": version.version, "rules": rules})


class RuleCopying(Duty):
    """Copies the rules to Redis when it starts, and again every `every_s`.  Calls `prepare` before each copy."""

    failing = "rules not copied to Redis"
    expected = (*Duty.expected, RedisError, SQLAlchemyError)

    def __init__(
        self, redis: Redis, store: RuleStore, prepare: Callable[[], None], *, every_s: float = COPIED_EVERY_S
    ) -> None:
        self._redis = redis
        self._store = store
        self._prepare = prepare
        self._every_s = every_s

    def tick(self) -> float:
        self._prepare()
        copy_rules(self._redis, self._store)
        return self._every_s
