"""The copy of the rules in Redis, which whoever plans a request reads."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from chorale_client.keys import RULES
from pydantic_core import from_json
from redis import Redis
from redis.exceptions import RedisError
from structlog import get_logger

from models.errors import ServiceError
from models.rules import read_rules
from rules.matching import Matcher

log = get_logger("chorale.rules")

READ_EVERY_S = 1.0
"""A change holds for every request that is accepted this long after it."""
_REMEMBERED = 1_000
"""Namespaces whose rules a process remembers."""


@dataclass(slots=True)
class _Read:
    at_s: float
    text: bytes | None = None
    matcher: Matcher | None = None


class PublishedRules:
    """Thread-safe; reads a namespace's rules at most once in READ_EVERY_S."""

    def __init__(self, redis: Redis, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Read] = OrderedDict()

    def of(self, namespace: str) -> Matcher | None:
        """None without rules.  If Redis does not answer, the rules that were read last."""
        with self._lock:
            now_s = self._clock()
            known = self._known.setdefault(namespace, _Read(now_s - READ_EVERY_S))
            self._known.move_to_end(namespace)
            if now_s - known.at_s >= READ_EVERY_S:
                known.at_s = now_s
                self._read(namespace, known)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            return known.matcher

    def _read(self, namespace: str, known: _Read) -> None:
        try:
            text = cast("bytes | None", self._redis.hget(RULES, namespace))
            if text != known.text:
                known.matcher = None if text is None else _matcher(text)
                known.text = text
        except (RedisError, ServiceError, ValueError, KeyError, TypeError) as error:
            # Rules of a newer version of the program may be unreadable here.
            log.warning("rules not read", namespace=namespace, error=str(error)[:200])


def _matcher(text: bytes) -> Matcher:
    wire = from_json(text)
    return Matcher(read_rules(wire["rules"]), wire["version"])
