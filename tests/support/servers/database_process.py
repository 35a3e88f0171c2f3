"""A process that upgrades a database's schema, drains into it, locks it, or dies at the worst moment.

Start it with `started`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

import redis
from sqlalchemy import Engine, event

from records.audit.drainer import Drainer
from records.database import LOCKS, open_database, upgrade
from search.documents.database import Database
from tests.support.pipelines.fork_server import ForkedProcess
from tests.support.pipelines.pipeline import FORK_SERVER


@dataclass(frozen=True, slots=True)
class DatabaseProcess:
    process: ForkedProcess
    stdout: TextIO
    stdin: TextIO


@contextmanager
def started(action: str, *arguments: str) -> Iterator[DatabaseProcess]:
    """Yields the running process, whose output is readable line by line; kills it at the end."""
    call = f"from tests.support.servers import database_process as it; it.{action}(*{arguments})"
    (read, stdout), (stdin, write) = os.pipe(), os.pipe()
    with os.fdopen(read) as output, os.fdopen(write, "w", buffering=1) as input_:
        process = FORK_SERVER.fork(call, os.environ, (stdout, 2, stdin))
        os.close(stdout)
        os.close(stdin)
        try:
            yield DatabaseProcess(process, output, input_)
        finally:
            process.kill()


def line_of(started: DatabaseProcess) -> str:
    return started.stdout.readline().strip()


def say(line: str) -> None:
    print(line, flush=True)


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def documents(url: str) -> None:
    with closing(Database(url)) as database, database.snapshot():
        pass


BRING_UP = {"audit": upgrade, "documents": documents}


def migrate(what: str, url: str) -> None:
    """Announces itself, waits for a line, then upgrades the schema, so that several processes start at once."""
    say("ready")
    sys.stdin.readline()
    BRING_UP[what](url)


def migrate_and_die(what: str, url: str, table: str) -> None:
    """Dies right after `table` was made."""

    def die_after_table(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if f"CREATE TABLE {table} " in " ".join(statement.split()):
            die()

    # The hook is on every engine, because the upgrade makes its engine itself.
    event.listen(Engine, "after_cursor_execute", die_after_table)
    BRING_UP[what](url)


class DiesBeforeDeleting(redis.Redis):
    def xdel(self, *_: Any) -> Any:
        die()


def drain_and_die(url: str, redis_url: str) -> None:
    """Commits the first batch and dies before its entries are deleted."""
    client = DiesBeforeDeleting.from_url(redis_url)
    Drainer(client, open_database(url), keep_texts=True).drain_once(1_000)


def drain(url: str, redis_url: str) -> None:
    """Drains three entries at a time, with a line for each of 40 batches, until killed."""
    drainer = Drainer(redis.Redis.from_url(redis_url), open_database(url), keep_texts=True, batch=3)
    for _ in range(40):
        drainer.drain_once(1)
        say("batch")
    time.sleep(600)


def hold(url: str) -> None:
    """Locks the whole database until killed."""
    engine = open_database(url)
    statement = "BEGIN IMMEDIATE" if engine.dialect.name == "sqlite" else "LOCK TABLE chorale_request"
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
        say("locked")
        time.sleep(600)


def hold_schema(url: str) -> None:
    """Stays in the middle of an upgrade until killed."""
    engine = open_database(url)
    with LOCKS[engine.dialect.name](engine, 10):
        say("locked")
        time.sleep(600)
