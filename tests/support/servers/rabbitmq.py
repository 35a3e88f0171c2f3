"""The shared RabbitMQ for one test at a time, because the product's queues have the same names in all tests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from amqp.exceptions import ResourceLocked  # type: ignore[import-untyped]
from kombu import Connection, Queue

LOCK = "chorale.tests"
"""A queue that only one connection may have."""

LOCK_LIMIT_S = 100.0


@contextmanager
def own_queues(url: str, names: Sequence[str]) -> Iterator[Connection]:
    """Waits until no other test uses this server; deletes these queues before and after.

    Yields a connection, with which the test publishes and reads.
    """
    with _locked(url), Connection(url) as connection:
        _delete(connection, names)
        try:
            yield connection
        finally:
            _delete(connection, names)


def _locked(url: str) -> Connection:
    until = time.monotonic() + LOCK_LIMIT_S
    while True:
        holder = Connection(url)
        try:
            Queue(LOCK, exclusive=True, channel=holder.channel()).declare()
            return holder
        except ResourceLocked:
            holder.release()
            assert time.monotonic() < until, "another test keeps the RabbitMQ server"
            time.sleep(0.2)


def _delete(connection: Connection, names: Sequence[str]) -> None:
    with connection.channel() as channel:
        for name in names:
            channel.queue_delete(name)
