"""The order of messages with documents: namespaces take turns with a worker, and the last message for a document stands.

A turn takes a second of work, and ten while no other namespace is known to wait.  A message whose namespace has had its
turn goes to the end of the queue.  Until it comes again, every namespace that waits has had a turn, and the next lap
begins.  A namespace goes on with the message that it began.

Workers overtake each other, a message that failed for now goes to the end of its queue, and a killed worker's message comes
back after a minute.  `WriteOrder` keeps documents right all the same.  A command that writes itself is later than all
waiting messages.  Document ids are kept only if they were written while an older message was not done: usually none,
otherwise some 160 bytes a document, for thirty days at most.  If two workers have the same message, the second one leaves it.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from chorale_client.index_tickets import NOT_DONE_FOR_S
from chorale_client.keys import INDEXED, NOT_DONE, WRITTEN
from chorale_client.wire_names import QUEUE_INDEX
from pydantic_core import from_json
from redis import Redis
from redis.exceptions import RedisError
from structlog import get_logger

from ledger import ledger_scripts
from models.batching import in_batches
from monitoring.queues import queue_states
from tasks.wiring.resources import Resources

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
        self._put_back_s = 0.0
        self._least_turn_s = TURN_S
        self._working_since_s: float | None = None
        self._interrupted: dict[str, str] = {}
        """The ticket of the message that a namespace goes on with."""

    def is_on(self, namespace: str, ticket: str) -> bool:
        """Whether the worker may work on this message now; otherwise it puts the message at the end of the queue (`putting_back`)."""
        begun = self._interrupted.get(namespace, ticket)
        if ticket in self._passed or ticket == self._interrupted.get(namespace):
            # Every other message has come since: the next lap begins.  If the message that was begun did not come,
            # another worker has it.
            self._least_turn_s = max(TURN_S, TURN_FOR_A_LAP * self._put_back_s)
            self._used_s.clear()
            self._passed.clear()
            self._put_back_s = 0.0
        elif begun != ticket or self.is_over(namespace):
            self._passed.add(ticket)
            return False
        self._interrupted.pop(namespace, None)
        return True

    @contextmanager
    def putting_back(self) -> Iterator[None]:
        """Counts the time of the block, which puts a message back."""
        begun_s = self._clock()
        yield
        self._put_back_s += self._clock() - begun_s

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


IDS_A_TRIP = 1_000
OUTCOME_TTL_S = 3_600
"""How long the outcome of a message can be read."""


NAMESPACE = ""
"""The id that stands for the whole namespace, once the namespace was deleted.  No document has this id."""


class DoneByAnother(Exception):
    """Another worker has done the same message; later writes are no longer kept for it."""


class WriteOrder:
    """The order of one message: its stamp (`chorale_client.index_tickets`), and its ticket if Redis notes it as not done.

    Used while the namespace is held.  Methods raise RedisError.
    """

    def __init__(self, client: Redis, namespace: str, handed_in: int, *, ticket: str | None = None) -> None:
        self._client = client
        self._keys = (NOT_DONE + namespace, WRITTEN + namespace)
        self._handed_in, self._ticket = handed_in, ticket

    def is_done(self) -> bool:
        """Whether another worker has done the message; False if that is not known, as after Redis was emptied.

        Outcomes are kept for an hour.  An older message counts as done if its note is gone.
        """
        if self._ticket is None:
            return False
        with self._client.pipeline(transaction=False) as trip:
            trip.zscore(self._keys[0], self._ticket)
            trip.get(INDEXED + self._ticket)
            trip.time()
            not_done, outcome, (now_s, _) = trip.execute()
        if outcome is not None:
            # The stamp is compared too: a program without our client may use an id again.
            return bool(from_json(outcome).get("handed_in") == self._handed_in)
        # A message that has expired lost its note too, but it is older than NOT_DONE_FOR_S.
        return not_done is None and OUTCOME_TTL_S < now_s - self._handed_in / 1_000_000 < NOT_DONE_FOR_S

    def overtaken(self, document_ids: Sequence[str]) -> set[str]:
        """The ids that a later message has written or deleted.  Raises DoneByAnother."""
        if self.is_done():
            raise DoneByAnother
        later = self._later([*document_ids, NAMESPACE])
        return set(document_ids) if NAMESPACE in later else later

    def written_later(self) -> set[str]:
        """The ids that later messages have written or deleted, as long as this one is noted as not done."""
        names = self._client.zrangebyscore(self._keys[1], f"({self._handed_in}", "+inf")
        return {name.decode() for name in cast("list[bytes]", names)} - {NAMESPACE}

    def is_namespace_deleted(self) -> bool:
        """Whether a later message or command has deleted the whole namespace."""
        return NAMESPACE in self._later([NAMESPACE])

    def _later(self, names: Sequence[str]) -> set[str]:
        with self._client.pipeline(transaction=False) as trip:
            for name in names:
                trip.zscore(self._keys[1], name)
            stamps = trip.execute()
        return {
            name
            for name, stamp in zip(names, stamps, strict=True)
            if stamp is not None and stamp > self._handed_in
        }

    def keep(self, document_ids: Iterable[str]) -> None:
        """Note that this message has written or deleted these ids."""
        scripts = ledger_scripts(self._client)
        expired_us = self._handed_in - NOT_DONE_FOR_S * 1_000_000
        for part in in_batches(document_ids, IDS_A_TRIP):
            args = [self._handed_in, expired_us, NOT_DONE_FOR_S, *part]
            if not scripts.run("record_written", self._keys, args):
                # No older message waits, and every new one is later.
                return
