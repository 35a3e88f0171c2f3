"""The corpus generation of each namespace, in the corpus and in its copy in Redis.

Answers are cached under the generation that Redis has, so the copy must not differ from the corpus.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from chorale_client.keys import GENERATION
from redis import Redis
from redis.exceptions import RedisError

from ledger import ledger_scripts
from models.errors import ServiceError, UnknownNamespace
from search.documents.reading import Documents

COMPARED_EVERY_S = 1.0
"""A cell that is searched compares its copy of a namespace's generation with the documents, at most once in this time."""


class Generations:
    """Thread-safe."""

    def __init__(
        self,
        redis: Redis,
        documents: Callable[[], Documents],
        *,
        is_in_file: bool,
        has_documents: bool = True,
        others_write: bool = False,
    ) -> None:
        """`is_in_file`: whether the only store is in files of this machine.  A server would take too long to answer a planner.
        Without `has_documents` no store takes documents, and every namespace has generation 0.  With `others_write` a change of
        the corpus may be published in another Redis, so the copy is compared again and again."""
        self._has_documents = has_documents
        self._redis = redis
        self._documents = documents
        self._is_in_file = is_in_file
        self._others_write = others_write
        self._compared_at_s: dict[str, float] = {}
        self.agreed: dict[str, int] = {}
        """For each namespace, the last generation on which Redis and corpus agreed."""
        self._comparing = threading.Lock()

    def in_redis(self, namespace: str) -> int | None:
        """None if nobody has copied it, or Redis does not answer."""
        try:
            copied = cast("bytes | None", self._redis.get(GENERATION + namespace))
        except RedisError:
            return None
        return int(copied) if copied else None

    def in_redis_or_copied(self, namespace: str) -> int | None:
        """Like `in_redis`, but None, so that nothing is cached, if the corpus has another generation.

        Redis may have been emptied or restored to an older state: then the generation is copied for the next request.  A
        restored corpus may be older than the cached answers in Redis: then `rise_beyond` is needed.
        """
        if not self._has_documents:
            return 0
        copied = self.in_redis(namespace)
        if copied is not None:
            agreed = self.agreed.get(namespace)
            if copied >= agreed if agreed is not None else not self._is_in_file:
                self.agreed[namespace] = copied
                since_s = time.monotonic() - self._compared_at_s.get(namespace, 0.0)
                if self._others_write and since_s > COMPARED_EVERY_S:
                    self._begin_to_compare(namespace, copied)
                return copied
        if self._is_in_file:
            return self._compared(namespace, copied)
        self._begin_to_compare(namespace, copied)
        return None

    def _begin_to_compare(self, namespace: str, copied: int | None) -> None:
        """In a thread, for the next request: a database that does not answer must not delay this one."""
        if self._comparing.acquire(blocking=False):
            self._compared_at_s[namespace] = time.monotonic()
            threading.Thread(target=self._compare_aside, args=(namespace, copied), daemon=True).start()

    def rise_beyond(self, namespace: str) -> None:
        """Raise the generation of a corpus above the copy in Redis, under which readers have cached answers.

        Raises BadIndex, WriterBusy.
        """
        documents, copied = self._documents(), self.in_redis(namespace)
        if copied is not None and documents.generation(namespace) < copied:
            documents.raise_generation(namespace, copied + 1)

    def publish(self, namespace: str, generation: int) -> int:
        """Copy the generation to Redis, when every store has it; an older one than Redis has is not copied.  Returns the copy."""
        copy = ledger_scripts(self._redis).run("raise_generation", [GENERATION + namespace], [generation])
        return cast("int", copy)

    def _compare_aside(self, namespace: str, copied: int | None) -> None:
        try:
            self._compared(namespace, copied)
        finally:
            self._comparing.release()

    def _compared(self, namespace: str, copied: int | None) -> int | None:
        """The generation if the corpus has the one that Redis has (`copied`); otherwise it is copied to Redis, and None."""
        with suppress(ServiceError, RedisError):
            # Read after Redis: a writer commits to the corpus before it publishes.
            try:
                own = self._documents().generation(namespace)
            except UnknownNamespace:
                # Another cell has deleted the namespace.
                self._redis.delete(GENERATION + namespace)
                self.agreed.pop(namespace, None)
                return None
            if own == copied:
                self.agreed[namespace] = own
                return own
            if copied is None:
                # `nx`: a writer may have published a newer one.
                self._redis.set(GENERATION + namespace, own, nx=True)
            else:
                self.publish(namespace, own)
        return None
