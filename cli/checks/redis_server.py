"""The Redis server: without it nothing is asked, and what it forgets or refuses is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cli.checks.finding import Finding
from cli.surroundings import NotRunning, Surroundings

OLDEST_VERSION = (6, 2)
"""The oldest with the commands that the ledger's scripts use."""
FULL = 0.9
"""Share of `maxmemory` from which writes will soon be refused."""


def reachable(around: Surroundings) -> Iterator[Finding]:
    try:
        around.running_redis()
    except NotRunning as error:
        what, _, mend = str(error).partition(": ")
        yield Finding(what, mend)


def version(around: Surroundings) -> Iterator[Finding]:
    said = str(_info(around)["redis_version"])
    if tuple(int(part) for part in said.split(".")[:2]) < OLDEST_VERSION:
        yield Finding(f"Redis has version {said}", f"use {'.'.join(map(str, OLDEST_VERSION))} or newer")


def memory(around: Surroundings) -> Iterator[Finding]:
    info = _info(around)
    policy, limit = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", 0))
    if policy != "noeviction":
        yield Finding(
            f"Redis may evict requests and answers (maxmemory-policy {policy})",
            "set `maxmemory-policy noeviction` in redis.conf, and now: redis-cli CONFIG SET maxmemory-policy noeviction",
        )
    if limit and int(info["used_memory"]) > FULL * limit:
        yield Finding(
            f"Redis uses {int(info['used_memory']) / limit:.0%} of its memory; when it is full it refuses requests",
            "raise `maxmemory`, or lower CHORALE_CACHE_TTL_S and CHORALE_ANSWER_TTL_S",
        )


def durability(around: Surroundings) -> Iterator[Finding]:
    info = _info(around)
    if not int(info.get("aof_enabled", 0)):
        yield Finding(
            "Redis keeps nothing over a restart (appendonly no): requests in flight and the outbox would be lost",
            "set `appendonly yes` in redis.conf, and now: redis-cli CONFIG SET appendonly yes",
        )
    elif info.get("aof_last_write_status", "ok") != "ok":
        yield Finding("Redis cannot write its append-only file", "see its log; mostly the disk is full")


def _info(around: Surroundings) -> dict[str, Any]:
    info: dict[str, Any] = around.running_redis().info()
    return info
