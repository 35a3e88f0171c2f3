"""The drainer: moves each ended request from the outbox to the audit tables exactly once, despite kills at any time.

Drainers share the outbox as a consumer group of Redis, so each drainer takes other entries.  The group only divides the work: an entry that two
drainers take is still written once.
"""

from __future__ import annotations

import logging
import random
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

import redis
from chorale_client.keys import CALLBACKS, OUTBOX
from sqlalchemy import Connection, Engine, FromClause
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError

from models.duty import Duty
from models.errors import cause
from models.tables.audit import BranchRow, HitRow, QuestionRow, RequestRow
from records.audit.outbox import MAX_UNREADABLE, UNREADABLE, Ended, Unreadable, audit_scripts, parse
from records.audit.rows import Row, Rows, is_in_hits_share, rows_of
from records.database import insert_into, to_text

BLOCK_MS = 1_000
GATHER_S = 0.2
"""The pause after a batch that was not full, so that one transaction serves many requests."""
BACK_OFF_S, LONGEST_BACK_OFF_S = 0.1, 10.0

GROUP = "drainers"
CONSUMER = "drainer"
"""All drainers have one name in the group, since a name of each process would stay in Redis for ever."""
LOST_AFTER_MS = 2_000
"""An entry that was not written for so long is taken again: its drainer was killed or hangs, or Redis was full."""

MAX_CALLBACKS = 10_000
"""Maximum number of ends whose callbacks wait while the broker is away."""

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")

MAX_FIELDS = 1_000
"""Maximum fields of an entry that is set aside; Lua passes on only a few thousand values at once."""

log = logging.getLogger(__name__)

Fields = Mapping[bytes | str, bytes | str]


class Drainer(Duty):
    """Moves ended requests from the outbox to SQL; any number of drainers may run at once, and share the work.

    `engine` comes from `records.database.open_database`, its schema from `records.database.upgrade`.  Texts of questions,
    filters and tags are written only with `keep_texts`; without, questions are hashed under `hash_key` (None: a key of this
    drainer alone).  Hits and candidates are written for the share `hits_share` of the requests.  `batch` entries are read and
    written together; an entry of a large bulk request can have megabytes.
    `run` calls `prepare` before each batch.  `on_written` gets the requests whose rows this drainer has inserted: each request
    once, or never if the drainer is killed before the call.
    """

    failing = "audit: writing fails, ended requests wait in the outbox"
    expected = (*Duty.expected, redis.RedisError, SQLAlchemyError)

    def __init__(
        self,
        redis_client: redis.Redis,
        engine: Engine,
        *,
        keep_texts: bool,
        hash_key: bytes | None = None,
        hits_share: float = 1.0,
        batch: int = 64,
        prepare: Callable[[], None] = lambda: None,
        on_written: Callable[[Sequence[Ended]], None] = lambda ended: None,
    ) -> None:
        self._redis = redis_client
        self._scripts = audit_scripts(redis_client)
        self._engine = engine
        self._hash_key = None if keep_texts else hash_key or secrets.token_bytes(32)
        self._hits_share = hits_share
        self._batch = batch
        self._prepare = prepare
        self._on_written = on_written

    def tick(self) -> float:
        self._prepare()
        return 0.0 if self.drain_once(BLOCK_MS) == self._batch else GATHER_S

    def pause_s(self, failures: int) -> float:
        return back_off_s(failures)

    def drain_once(self, timeout_ms: int) -> int:
        """Wait up to `timeout_ms` for ended requests and move one batch; returns how many left the outbox.

        Raises the errors of SQLAlchemy and redis when the database or Redis is not available; nothing is lost then.
        """
        entries = self._take(timeout_ms)
        ids: list[Any] = [entry for entry, _ in entries]
        if ids:
            try:
                wrong = self._move(entries)
            except Exception:
                with suppress(redis.RedisError):
                    self._redis.xclaim(OUTBOX, GROUP, CONSUMER, 0, ids, idle=LOST_AFTER_MS, justid=True)
                raise
            # A full Redis refuses to set entries aside.  They are taken again after LOST_AFTER_MS, so that the others leave the outbox first.
            if wrong:
                self._set_aside(wrong)
            self._redis.xack(OUTBOX, GROUP, *ids)
        return len(entries)

    def _move(self, entries: Sequence[tuple[bytes | str, Fields]]) -> dict[bytes | str, tuple[Fields, str]]:
        """Write the entries, and delete them from the outbox; returns those that cannot be written, with reasons."""
        batch: dict[bytes | str, Rows] = {}
        ended: dict[bytes | str, Ended] = {}
        wrong: dict[bytes | str, tuple[Fields, str]] = {}
        for entry, fields in entries:
            try:
                ended[entry] = parse(fields)
                with_hits = is_in_hits_share(ended[entry].request_id, self._hits_share)
                batch[entry] = rows_of(ended[entry], hash_key=self._hash_key, with_hits=with_hits)
            except Unreadable as error:
                wrong[entry] = fields, str(error)
        if batch:
            written, refused = self._store(batch)
            wrong |= {entry: (fields, refused[entry]) for entry, fields in entries if entry in refused}
            self._on_written([ended[entry] for entry in written])
        return wrong

    def _take(self, timeout_ms: int) -> list[tuple[bytes | str, Fields]]:
        """Entries that are lost, or else entries that no drainer has taken."""
        try:
            lost: Any = self._redis.xautoclaim(OUTBOX, GROUP, CONSUMER, LOST_AFTER_MS, count=self._batch)
            if lost[1]:
                return list(lost[1])
            streams: Any = self._redis.xreadgroup(
                GROUP, CONSUMER, {OUTBOX: ">"}, count=self._batch, block=self._patience_ms(timeout_ms)
            )
        except redis.ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            self._scripts.run("make_group", [OUTBOX], [GROUP])
            return self._take(timeout_ms)
        if not streams:
            return []
        # RESP3 returns a dict, with one more level of lists.
        return list(next(iter(streams.values()))[0] if isinstance(streams, dict) else streams[0][1])

    def _patience_ms(self, timeout_ms: int) -> int:
        """The time to block: less than the client's socket timeout, and not 0, which means for ever."""
        socket_timeout_s = self._redis.connection_pool.connection_kwargs.get("socket_timeout")
        longest = timeout_ms if socket_timeout_s is None else int(socket_timeout_s * 500)
        return max(1, min(timeout_ms, longest))

    def _store(
        self, batch: Mapping[bytes | str, Rows]
    ) -> tuple[Sequence[bytes | str], dict[bytes | str, str]]:
        """Write entries and delete them from the outbox.

        Returns the entries that this drainer wrote, and those that the database refuses for good, with reasons.
        """
        try:
            written = self._write(batch)
        except Exception as error:
            if not is_about_values(error):
                raise
            if len(batch) == 1:
                return [], dict.fromkeys(batch, cause(error))
            written = []
            refused: dict[bytes | str, str] = {}
            for entry, rows in batch.items():
                newly, wrong = self._store({entry: rows})
                written += newly
                refused |= wrong
            return written, refused
        if with_callback := [entry for entry, rows in batch.items() if rows.has_callback]:
            self._scripts.run("pass_on", [OUTBOX, CALLBACKS], [MAX_CALLBACKS, *with_callback])
        self._redis.xdel(OUTBOX, *batch)
        return written, {}

    def _write(self, batch: Mapping[bytes | str, Rows]) -> list[bytes | str]:
        """Write the entries that are still in the outbox; the others were written by another drainer, or deleted.

        Returns those that this drainer inserted: another one may have committed an entry that it has not deleted yet.

        The check takes place between INSERT and COMMIT.  Whoever deletes a request from the outbox waits for the commit
        (`records.audit.deletion.wait_for_drainers`) and then deletes its rows.
        """
        gone: set[bytes | str] = set()
        while remaining := {entry: rows for entry, rows in batch.items() if entry not in gone}:
            with self._engine.begin() as connection:
                inserted = insert_new(connection, remaining)
                newly: Any = self._scripts.run("gone", [OUTBOX], list(remaining))
                if not newly:
                    return inserted
                connection.rollback()
            gone.update(newly)
        return []

    def _set_aside(self, wrong: Mapping[bytes | str, tuple[Fields, str]]) -> None:
        for entry, (fields, error) in wrong.items():
            log.error("audit: entry %s of the outbox is set aside in %s: %s", entry, UNREADABLE, error)
            stored = dict([*islice(fields.items(), MAX_FIELDS), ("error", error)])
            args = [entry, MAX_UNREADABLE, *chain(*stored.items())]
            self._scripts.run("set_aside", [OUTBOX, UNREADABLE], args)


def insert_new(connection: Connection, batch: Mapping[bytes | str, Rows]) -> list[bytes | str]:
    """Insert the requests that are not in the tables yet, with their children; returns the entries that were
    inserted."""
    first: dict[tuple[str, int], bytes | str] = {}
    for entry, rows in batch.items():
        first.setdefault(rows.identity, entry)
    new = connection.execute(
        insert_into(connection, RequestRow)
        .on_conflict_do_nothing(index_elements=["request_id", "accepted_at_ms"])
        .returning(RequestRow.request_id, RequestRow.accepted_at_ms),
        [batch[entry].request for entry in first.values()],
    ).all()
    entries = [first[request_id, accepted_at_ms] for request_id, accepted_at_ms in new]
    inserted = [batch[entry] for entry in entries]
    for table, children in (
        (QuestionRow, [row for rows in inserted for row in rows.questions]),
        (BranchRow, [row for rows in inserted for row in rows.branches]),
        (HitRow, [row for rows in inserted for row in rows.hits]),
    ):
        if children:
            _insert_all(connection, table.__table__, children)
    return entries


def _insert_all(connection: Connection, table: FromClause, rows: Sequence[Row]) -> None:
    """Insert rows that have the same columns, without SQLAlchemy's work for each row; on PostgreSQL by one value."""
    if connection.dialect.name == "sqlite":
        values = [
            tuple(to_text(value) if isinstance(value, dict | list) else value for value in row.values())
            for row in rows
        ]
        marks = ", ".join("?" * len(rows[0]))
        connection.exec_driver_sql(f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES ({marks})", values)
        return
    # PostgreSQL reads bytes as hexadecimal digits.
    records = [
        {name: rf"\x{value.hex()}" if isinstance(value, bytes) else value for name, value in row.items()}
        for row in rows
    ]
    # PostgreSQL takes no NUL in JSON.
    values_by_name = _NUL.sub(r"\1\\ufffd", to_text(records))
    statement = f"INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, %s::json)"
    connection.exec_driver_sql(statement, (values_by_name,))


def is_about_values(error: Exception) -> bool:
    """Whether the database refuses these rows for good; otherwise it is not available for any row."""
    if isinstance(error, DBAPIError):
        return isinstance(error, DataError | IntegrityError)
    # The driver cannot bind the value: an integer beyond 64 bits, a lone surrogate.
    return isinstance(error, StatementError | ValueError | TypeError | OverflowError)


def back_off_s(failures: int) -> float:
    """The pause after this many consecutive failures; its jitter keeps drainers from retrying together."""
    return min(LONGEST_BACK_OFF_S, BACK_OFF_S * 2.0 ** min(failures, 16)) * random.uniform(0.5, 1.0)
