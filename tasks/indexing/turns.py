"""Namespaces take turns with an index worker, so that the documents of one keep those of another waiting for a moment only.

A turn takes a second of work.  A message whose namespace has had its turn goes to the end of the queue, while other
messages wait: until it comes again, every namespace that waits has had a turn, and the next lap begins.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from chorale_client.words import QUEUE_INDEX
from redis.exceptions import RedisError
from structlog import get_logger

from assembly.resources import Resources
from monitoring.queues import queue_states

log = get_logger("chorale.index")

TURN_S = 1.0
TURN_FOR_A_LAP = 5.0
"""A turn is at least this many times as long as the messages that were put back in the last lap took."""


class TurnOver(Exception):
    """The namespace has had its turn, and other messages wait."""


class Turns:
    """The turns with one worker.  `others_wait` says whether another message is in the queue."""

    def __init__(
        self, others_wait: Callable[[], bool], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._others_wait = others_wait
        self._clock = clock
        self._used_s: defaultdict[str, float] = defaultdict(float)
        self._passed: set[str] = set()
        self._passing_s = 0.0
        self._turn_s = TURN_S
        self._since_s = 0.0
        self.unfinished: dict[str, Any] = {}
        """What is done of each interrupted message, by ticket (`tasks.indexing.handed_in_documents`)."""

    def is_on(self, namespace: str, ticket: str) -> bool:
        """Whether the worker may work on this message now; otherwise it puts the message at the end of the queue (`passing`)."""
        if self._used_s[namespace] >= self._turn_s and self._others_wait() and ticket not in self._passed:
            self._passed.add(ticket)
            return False
        if self._used_s[namespace] >= self._turn_s:
            self._turn_s = max(TURN_S, TURN_FOR_A_LAP * self._passing_s)
            self._used_s.clear()
            self._passed.clear()
            self._passing_s = 0.0
        return True

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Counts the time of the block, which puts a message back."""
        begun_s = self._clock()
        yield
        self._passing_s += self._clock() - begun_s

    @contextmanager
    def working(self, namespace: str) -> Iterator[None]:
        """Counts the time of the block, which works for this namespace."""
        self._since_s = self._clock()
        try:
            yield
        finally:
            self._used_s[namespace] += self._clock() - self._since_s

    def check(self, namespace: str) -> None:
        """Raises TurnOver, inside `working`, if other messages shall come first."""
        used_s = self._used_s[namespace] + self._clock() - self._since_s
        if used_s >= self._turn_s and self._others_wait():
            raise TurnOver


def others_wait(resources: Resources) -> bool:
    """Whether a message waits in the queue of index work; False if that is not known."""
    broker_url = resources.settings.broker_url
    try:
        if broker_url is None:
            return bool(resources.redis.llen(QUEUE_INDEX))
        return bool(queue_states(resources.redis, [QUEUE_INDEX], broker_url=broker_url)[QUEUE_INDEX].length)
    except RedisError:
        return False
    except Exception as error:  # whatever a broker's transport raises
        log.warning("queue not seen", error=str(error)[:200])
        return False
