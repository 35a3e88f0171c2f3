"""Namespaces take turns with an index worker, so that the documents of one keep those of another waiting for a moment only.

A turn takes a second of work, and ten while no other namespace is known to wait.  A message whose namespace has had its
turn goes to the end of the queue.  Until it comes again, every namespace that waits has had a turn, and the next lap
begins.  A namespace goes on with the message that it began.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chorale_client.keys import NOT_DONE
from chorale_client.wire_names import QUEUE_INDEX
from redis.exceptions import RedisError
from structlog import get_logger

from monitoring.queues import queue_states
from wiring.resources import Resources

log = get_logger("chorale.index")

TURN_S = 1.0
TURN_ALONE_S = 10.0
"""The queue shows no namespaces.  After this time the worker looks through it, although all messages may be of the
namespace that works."""
TURN_FOR_A_LAP = 5.0
"""A turn is at least this many times as long as the messages that were put back in the last lap took."""


class TurnOver(Exception):
    """The namespace has had its turn, and other messages wait."""


class Turns:
    """The turns with one worker.

    `turn_s` gives the seconds that a turn of a namespace takes as the queue is now; infinite if no message waits.
    """

    def __init__(
        self, turn_s: Callable[[str], float], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._now_turn_s = turn_s
        self._clock = clock
        self._used_s: defaultdict[str, float] = defaultdict(float)
        self._passed: set[str] = set()
        self._passing_s = 0.0
        self._least_turn_s = TURN_S
        self._working_since_s: float | None = None
        self._interrupted: dict[str, str] = {}
        """The ticket of the message that a namespace goes on with."""

    def is_on(self, namespace: str, ticket: str) -> bool:
        """Whether the worker may work on this message now; otherwise it puts the message at the end of the queue (`passing`)."""
        begun = self._interrupted.get(namespace, ticket)
        if ticket in self._passed or ticket == self._interrupted.get(namespace):
            # Every other message has come since: the next lap begins.  If the message that was begun did not come,
            # another worker has it.
            self._least_turn_s = max(TURN_S, TURN_FOR_A_LAP * self._passing_s)
            self._used_s.clear()
            self._passed.clear()
            self._passing_s = 0.0
        elif begun != ticket or self.is_over(namespace):
            self._passed.add(ticket)
            return False
        self._interrupted.pop(namespace, None)
        return True

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Counts the time of the block, which puts a message back."""
        begun_s = self._clock()
        yield
        self._passing_s += self._clock() - begun_s

    @contextmanager
    def working(self, namespace: str, ticket: str) -> Iterator[None]:
        """Counts the time of the block, which works for this namespace, and remembers a message that is interrupted."""
        begun_s, outer_s = self._clock(), self._working_since_s
        self._working_since_s = begun_s
        try:
            yield
        except TurnOver:
            self._interrupted[namespace] = ticket
            raise
        finally:
            self._used_s[namespace] += self._clock() - begun_s
            self._working_since_s = outer_s

    def is_over(self, namespace: str) -> bool:
        """Whether other messages shall come first."""
        used_s = self._used_s[namespace]
        if self._working_since_s is not None:
            used_s += self._clock() - self._working_since_s
        return used_s >= self._least_turn_s and used_s >= self._now_turn_s(namespace)


def turn_s(resources: Resources, namespace: str) -> float:
    """How long a turn of `namespace` takes; infinite if no message waits, or if that is not known."""
    broker_url = resources.settings.broker_url
    try:
        if broker_url is None:
            waiting = int(resources.redis.llen(QUEUE_INDEX))
        else:
            states = queue_states(resources.redis, [QUEUE_INDEX], broker_url=broker_url)
            waiting = states[QUEUE_INDEX].length or 0
        if not waiting:
            return math.inf
        # The message that is worked on is noted as not done, and does not wait.
        is_alone = waiting < int(resources.redis.zcard(NOT_DONE + namespace))
        return TURN_ALONE_S if is_alone else TURN_S
    except RedisError:
        return math.inf
    except Exception as error:  # whatever a broker's transport raises
        log.warning("queue not seen", error=str(error)[:200])
        return math.inf
