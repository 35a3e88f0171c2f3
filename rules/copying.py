"""Copies the rules from the database to Redis: after each change, and again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from chorale_client.keys import RULES
from pydantic_core import to_json
from redis import Redis
from redis.client import Pipeline
from structlog import get_logger

from rules.store import RuleStore, Version

log = get_logger("chorale.rules")

COPIED_EVERY_S = 10.0
"""A Redis that has lost its data has the rules again after this time."""


def copy_rules(redis: Redis, store: RuleStore, namespace: str | None = None) -> None:
    """Make the copy equal to the database, for one namespace or for all.  Raises RedisError and RulesUnavailable."""

    def write(trip: Pipeline) -> None:
        if namespace is None:
            found = cast("dict[bytes, bytes]", trip.hgetall(RULES))
            versions = store.all_current()
        else:
            one = cast("bytes | None", trip.hget(RULES, namespace))
            found = {} if one is None else {namespace.encode(): one}
            versions = [version] if (version := store.current(namespace)).version else []
        wanted = {one.namespace.encode(): _wire(one) for one in versions}
        trip.multi()
        for name in found.keys() - wanted.keys():
            trip.hdel(RULES, name)
        for name, text in wanted.items():
            if found.get(name) != text:
                trip.hset(RULES, name, text)

    # Begun anew if somebody wrote the copy meanwhile, who may have read a newer version.
    redis.transaction(write, RULES)


def _wire(one: Version) -> bytes:
    rules: Any = one.rules.model_dump(mode="json", exclude_defaults=True)
    return to_json({"version": one.version, "rules": rules})


class RuleCopying:
    """Copies the rules to Redis when it starts, and again every `every_s`.  Calls `prepare` before each copy."""

    def __init__(
        self, redis: Redis, store: RuleStore, prepare: Callable[[], None], *, every_s: float = COPIED_EVERY_S
    ) -> None:
        self._redis = redis
        self._store = store
        self._prepare = prepare
        self._every_s = every_s

    def run(self, stop: threading.Event) -> None:
        has_failed = False
        while not stop.is_set():
            try:
                self._prepare()
                copy_rules(self._redis, self._store)
                has_failed = False
            except Exception as error:  # whatever it is, the next copy may succeed
                if not has_failed:
                    log.warning("rules not copied to Redis", error=str(error)[:200])
                has_failed = True
            stop.wait(self._every_s)
