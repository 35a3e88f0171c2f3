"""The corpus generation of each namespace: compared between the corpus and Redis, copied and published.

What is cached stands under the generation that Redis has, so Redis must not say one that the corpus does not have.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from chorale_client.keys import GENERATION
from redis.exceptions import RedisError

from models.errors import ServiceError

if TYPE_CHECKING:
    from redis import Redis

    from search.protocol import WritingStore


class Generations:
    """Thread-safe."""

    def __init__(self, redis: Redis, writing_store: Callable[[], WritingStore], *, is_in_file: bool) -> None:
        """`is_in_file`: whether the one store is in a file of this machine; a server would be asked too long for a request
        that is being planned."""
        self._redis = redis
        self._writing_store = writing_store
        self._is_in_file = is_in_file
        self._agreed: dict[str, int] = {}
        """The last generation of each namespace that Redis was seen to have right."""
        self._comparing = threading.Lock()

    def in_redis(self, namespace: str) -> int | None:
        """None where nobody copied it, or Redis does not answer."""
        try:
            found = cast("bytes | None", self._redis.get(GENERATION + namespace))
        except RedisError:
            return None
        return int(found) if found else None

    def in_redis_or_copied(self, namespace: str) -> int | None:
        """Like `in_redis`; None, so that nothing is cached, where the corpus here says otherwise.

        Redis may have been emptied or set back: it is told anew, for those who ask next.  A corpus that was restored
        may be older than what Redis has cached answers of: `rise_beyond` mends that.
        """
        told = self.in_redis(namespace)
        if told is not None:
            agreed = self._agreed.get(namespace)
            if told >= agreed if agreed is not None else not self._is_in_file:
                self._agreed[namespace] = told
                return told
        if self._is_in_file:
            return self._compared(namespace, told)
        # A database that is silent must hold no request up: it is for those who ask next.
        if self._comparing.acquire(blocking=False):
            threading.Thread(target=self._compare_aside, args=(namespace, told), daemon=True).start()
        return None

    def rise_beyond(self, namespace: str) -> None:
        """Let a corpus that is older than what readers were told be newer, since they cached answers with that.

        Raises BadIndex, WriterBusy.
        """
        store, told = self._writing_store(), self.in_redis(namespace)
        if told is not None and store.generation(namespace) < told:
            store.raise_generation(namespace, told + 1)

    def publish(self, namespace: str, generation: int) -> None:
        """Copy the generation, once every store shows it; an older one than Redis has is not copied."""
        if generation > (self.in_redis(namespace) or 0):
            self._redis.set(GENERATION + namespace, generation)

    def _compare_aside(self, namespace: str, told: int | None) -> None:
        try:
            self._compared(namespace, told)
        finally:
            self._comparing.release()

    def _compared(self, namespace: str, told: int | None) -> int | None:
        """The generation, where the corpus' own is the one that Redis `told`; else Redis is told."""
        with suppress(ServiceError, RedisError):
            # After Redis: a writer commits before it tells.
            own = self._writing_store().generation(namespace)
            if own == told:
                self._agreed[namespace] = own
                return own
            if told is None:
                # Never over that of a writer who was faster.
                self._redis.set(GENERATION + namespace, own, nx=True)
            else:
                self.publish(namespace, own)
        return None
