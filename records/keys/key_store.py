"""API keys, `chorale_<key id>_<secret>`, in the database of the audit trail.  Only a hash of the secret is stored."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, fields
from typing import Any

from chorale_client.filters import check_filters
from chorale_client.request import check_namespace
from chorale_client.tenants import check_tenant
from sqlalchemy import Connection, Engine, Row, and_, bindparam, func, insert, inspect, or_, select, update

from models.errors import ServiceError, WrongDeclaration
from models.tables.installation import key_table as keys
from records.database import available, open_database
from records.keys.grant import SCOPES, Grant

_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_ID_LENGTH = 12
_KEY = re.compile(rf"chorale_([{_ID_LETTERS}]{{{_ID_LENGTH}}})_([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True, slots=True)
class NewKey:
    key_id: str
    text: str
    """The whole key, which is shown once."""
    hashed: str

    def __repr__(self) -> str:
        return f"NewKey({self.key_id!r})"


def new_key() -> NewKey:
    key_id = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))
    secret = secrets.token_urlsafe(32)
    return NewKey(key_id, f"chorale_{key_id}_{secret}", hash_of(secret))


def key_prefix(key_id: str) -> str:
    """What lists show of a key."""
    return f"chorale_{key_id}_…"


def parts_of(text: str) -> tuple[str, str] | None:
    """Id and secret of a key; None if the text is no key."""
    match = _KEY.fullmatch(text)
    return None if match is None else (match[1], match[2])


def hash_of(secret: str) -> str:
    # A fast hash suffices: nobody can guess 256 random bits.
    return hashlib.sha256(secret.encode()).hexdigest()


NO_KEY = hash_of("")
"""The hash that the secret of an unknown key is compared with, so that its check takes as long as any other."""


def is_secret(secret: str, hashed: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(hash_of(secret), hashed)


CACHED_FOR_S = 0.5
"""How long a revoked key may still work in a process that has just used it."""
_CACHED_KEYS = 10_000
_LARGEST = 1_000_000_000
_USE_WRITTEN_EVERY_MS = 60_000


class KeysUnavailable(ServiceError):
    """The database of the keys does not answer, or is locked."""


class NoSuchKey(ServiceError):
    """No key has this id."""


def no_key(key_id: str) -> NoSuchKey:
    return NoSuchKey(f"no key {key_id!r}; `chorale keys list` shows the keys")


@dataclass(frozen=True, slots=True)
class Key:
    """A key's row without its hash."""

    key_id: str
    name: str
    tenant: str
    namespaces: Sequence[str] | None
    scopes: Sequence[str]
    filters: Mapping[str, Any]
    max_top_k: int | None
    max_depth: int | None
    max_questions: int | None
    max_timeout_s: float | None
    requests_per_minute: int | None
    weight: float
    created_at_ms: int
    expires_at_ms: int | None
    revoked_at_ms: int | None
    used_at_ms: int | None

    def state(self, now_ms: int) -> str:
        if self.revoked_at_ms is not None:
            return "revoked"
        return "expired" if self.expires_at_ms is not None and self.expires_at_ms <= now_ms else "active"

    def grant(self) -> Grant:
        rights = _values(self, Grant) | {
            "namespaces": None if self.namespaces is None else frozenset(self.namespaces),
            "scopes": frozenset(self.scopes),
        }
        return Grant(**rights)


_COLUMNS = tuple(keys.c[column.name] for column in fields(Key))
_ROW_OF_KEY = select(keys.c.hashed, *_COLUMNS).where(keys.c.key_id == bindparam("key_id"))


@dataclass(slots=True)
class _Cached:
    hashed: str
    key: Key | None
    grant: Grant | None
    read_at_s: float
    is_noted: bool = False
    """Whether its use was noted since it was read."""


class KeyStore:
    """Thread-safe.  Every method raises KeysUnavailable if the database cannot be used."""

    def __init__(
        self,
        url: str,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine: Engine = open_database(url, must_exist=True)
        self._now_ms = now_ms
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, _Cached] = OrderedDict()
        # `find` never waits for a lock of the database, so another thread writes when a key was used.
        self._writer = ThreadPoolExecutor(1, "chorale-keys")

    def close(self) -> None:
        self._writer.shutdown()
        self._engine.dispose()

    def has_tables(self) -> bool:
        """Whether the database has the table of this version; `records.database.upgrade` makes it."""
        with self._using() as connection:
            return bool(inspect(connection).has_table(keys.name))

    def create(self, grant: Grant, *, name: str = "", expires_at_ms: int | None = None) -> NewKey:
        """Store a key with these rights and return it, the only time that its secret is known.

        Without a tenant the key's own id becomes its tenant; `grant.key_id` is ignored.  Raises WrongDeclaration.
        """
        check_rights(grant)
        key = new_key()
        row = _values(grant, Grant) | {
            "key_id": key.key_id,
            "hashed": key.hashed,
            "name": name,
            "tenant": grant.tenant or key.key_id,
            "namespaces": None if grant.namespaces is None else sorted(grant.namespaces),
            "scopes": [scope for scope in SCOPES if scope in grant.scopes],
            "filters": dict(grant.filters),
            "created_at_ms": self._now_ms(),
            "expires_at_ms": expires_at_ms,
        }
        with self._using() as connection:
            connection.execute(insert(keys).values(row))
        return key

    def find(self, text: str) -> Grant | None:
        """The grant of a key; None for a text that is no key, and for one that is wrong, expired or revoked."""
        parts = parts_of(text)
        return None if parts is None else self._checked(self._read(parts[0]), parts[1])

    def recall(self, text: str) -> Grant | None:
        """`find` without the database: None also for a key that this process has not read within CACHED_FOR_S."""
        parts = parts_of(text)
        cached = None if parts is None else self._fresh(parts[0])
        return None if parts is None or cached is None else self._checked(cached, parts[1])

    def active(self, key_id: str) -> Key | None:
        """The key with this id, unless it is expired or revoked: for a caller that has shown its secret before."""
        cached = self._read(key_id)
        return cached.key if cached.key and self._is_in_use(cached, cached.key) else None

    def _is_in_use(self, cached: _Cached, key: Key) -> bool:
        """Whether the key is active; then its use is noted."""
        if key.state(self._now_ms()) != "active":
            return False
        if not cached.is_noted:
            cached.is_noted = True
            self._note_use(key)
        return True

    def _checked(self, cached: _Cached, secret: str) -> Grant | None:
        right = is_secret(secret, cached.hashed)
        if not right or cached.key is None or not self._is_in_use(cached, cached.key):
            return None
        return cached.grant

    def list(self, count: int, *, after: tuple[int, str] | None = None) -> Sequence[Key]:
        """The newest keys, newest first, with revoked and expired ones; with `after` those that follow the key with this
        `created_at_ms` and id."""
        created, key_id = keys.c.created_at_ms, keys.c.key_id
        newest = select(*_COLUMNS).order_by(created.desc(), key_id).limit(count)
        if after is not None:
            newest = newest.where(or_(created < after[0], and_(created == after[0], key_id > after[1])))
        with self._using() as connection:
            return [Key(**_values(row, Key)) for row in connection.execute(newest)]

    def has(self, key_id: str) -> bool:
        """Whether there is this key, in whatever state."""
        return self._read(key_id).key is not None

    def revoke(self, key_id: str) -> None:
        """End a key.  A process that has just used it may accept it for CACHED_FOR_S more.  Raises NoSuchKey."""
        with self._using() as connection:
            revoked = func.coalesce(keys.c.revoked_at_ms, self._now_ms())
            changed = connection.execute(
                update(keys).where(keys.c.key_id == key_id).values(revoked_at_ms=revoked)
            )
        if not changed.rowcount:
            raise no_key(key_id)
        with self._lock:
            self._cached.pop(key_id, None)

    def _fresh(self, key_id: str) -> _Cached | None:
        with self._lock:
            cached = self._cached.get(key_id)
        is_fresh = cached is not None and self._clock_s() - cached.read_at_s < CACHED_FOR_S
        return cached if is_fresh else None

    def _read(self, key_id: str) -> _Cached:
        if (cached := self._fresh(key_id)) is not None:
            return cached
        now_s = self._clock_s()
        with self._using() as connection:
            row = connection.execute(_ROW_OF_KEY, {"key_id": key_id}).first()
        if row is None:
            cached = _Cached(NO_KEY, None, None, now_s)
        else:
            key = Key(**_values(row, Key))
            cached = _Cached(row.hashed, key, key.grant(), now_s)
        with self._lock:
            self._cached[key_id] = cached
            self._cached.move_to_end(key_id)
            if len(self._cached) > _CACHED_KEYS:
                self._cached.popitem(last=False)
        return cached

    def _note_use(self, key: Key) -> None:
        now_ms = self._now_ms()
        if key.used_at_ms is None or now_ms - key.used_at_ms >= _USE_WRITTEN_EVERY_MS:
            self._writer.submit(self._write_use, key.key_id, now_ms)

    def _write_use(self, key_id: str, now_ms: int) -> None:
        # A locked database is asked again at the key's next use.
        with suppress(KeysUnavailable), self._using() as connection:
            connection.execute(
                update(keys)
                .where(
                    keys.c.key_id == key_id,
                    func.coalesce(keys.c.used_at_ms, 0) <= now_ms - _USE_WRITTEN_EVERY_MS,
                )
                .values(used_at_ms=now_ms)
            )

    def _using(self) -> AbstractContextManager[Connection]:
        return available(self._engine.begin, KeysUnavailable, "keys")


def check_rights(grant: Grant) -> None:
    """Raises WrongDeclaration, which names the field."""
    try:
        if grant.tenant:
            check_tenant(grant.tenant)
        for namespace in grant.namespaces or ():
            check_namespace(namespace)
        check_filters(dict(grant.filters))
    except ValueError as error:
        raise WrongDeclaration(str(error)) from None
    if unknown := sorted(grant.scopes - set(SCOPES)):
        raise WrongDeclaration(f"scope: no {', '.join(unknown)}; there are: {', '.join(SCOPES)}")
    if not grant.scopes:
        raise WrongDeclaration(f"scope: a key needs at least one of: {', '.join(SCOPES)}")
    if grant.namespaces is not None and not grant.namespaces:
        raise WrongDeclaration("namespace: a key needs at least one, or all")
    if grant.filters and (writing := {"documents:write", "admin"} & grant.scopes):
        raise WrongDeclaration(
            f"filter: a key with {' and '.join(sorted(writing))} cannot have one, since it could replace documents that it "
            "cannot see; give the tenant a namespace of its own"
        )
    limits = ("max_top_k", "max_depth", "max_questions", "max_timeout_s", "requests_per_minute", "weight")
    for name in limits:
        value = getattr(grant, name)
        if value is not None and not 0 < value < _LARGEST:
            raise WrongDeclaration(f"{name}: must be above 0 and below {_LARGEST:,}, not {value:g}")


def _values(source: Grant | Key | Row[Any], kind: type[Grant | Key]) -> dict[str, Any]:
    """The values that `source` has for the fields of `kind`, by name."""
    return {column.name: getattr(source, column.name) for column in fields(kind)}
