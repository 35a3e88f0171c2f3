"""The Redis server: whether it answers, keeps what it is given, and has room."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from chorale_client.keys import GROUP_RESULT, PREFIX, RESULT

from cli.installation import Installation, NotRunning
from cli.local.redis_server import OLDEST_VERSION
from config.home import find_redis_url
from monitoring.checks import Finding
from tasks.celery_internals.visibility import BINDINGS, KOMBU

TESTED = (7, 4, 11)
"""The version of docker-compose.yml."""
APART_S = 5.0
"""A difference of clocks that is worth a finding."""
OURS = re.compile(rf"{PREFIX}|chorale\.|.*({RESULT}|{GROUP_RESULT}|{KOMBU}|unacked|celeryev|\.pidbox$)")
"""Our own keys (`chorale_client.keys`), and those of Celery applications, which may begin with a `global_keyprefix`."""
MAX_KEYS = 10_000
"""Most keys that are read; a database may have millions."""
SEPARATOR = "\x06\x16"
"""kombu's, between the parts of a binding, and between a queue and a priority."""
FULL = 0.9
"""Share of `maxmemory` beyond which Redis will soon refuse writes."""


def reachable(installation: Installation) -> Iterator[Finding]:
    try:
        installation.running_redis()
    except NotRunning as error:
        yield Finding(error.what, error.mend)


def version(installation: Installation) -> Iterator[Finding]:
    running = str(_info(installation)["redis_version"])
    if tuple(int(part) for part in running.split(".")[:2]) < OLDEST_VERSION:
        yield Finding(f"Redis has version {running}", f"use {'.'.join(map(str, OLDEST_VERSION))} or newer")


def release(installation: Installation) -> Iterator[Finding]:
    if installation.redis_url == find_redis_url(installation.settings.home):
        return  # the one that `chorale up` brings, which listens on this machine's loopback address alone
    info = _info(installation)
    running = str(info["redis_version"])
    # Valkey and others have numbers of their own.
    if info.get("server_name", "redis") == "redis" and tuple(map(int, running.split("."))) < TESTED:
        yield Finding(
            f"Redis {running} is older than {'.'.join(map(str, TESTED))}, with which Chorale is tested",
            "https://github.com/redis/redis/security/advisories lists what newer releases fix",
            is_remark=True,
        )


def memory(installation: Installation) -> Iterator[Finding]:
    info = _info(installation)
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


def clock(installation: Installation) -> Iterator[Finding]:
    before_s = time.time()
    seconds, microseconds = installation.running_redis().time()
    redis_s = seconds + microseconds / 1e6
    # Redis read its clock between our two looks at ours, however long the answer took.
    apart_s = max(before_s - redis_s, redis_s - time.time())
    if apart_s > APART_S:
        yield Finding(
            f"this machine's clock and that of the Redis server are {apart_s:,.0f} s apart",
            "let both follow a time server (chrony, systemd-timesyncd): requests end by Redis's clock, logs go by ours",
        )


def strangers(installation: Installation) -> Iterator[Finding]:
    """Find keys that belong neither to Chorale nor to a Celery application that asks it."""
    redis = installation.running_redis()
    names = [key.decode(errors="replace") for key in islice(redis.scan_iter(count=1_000), MAX_KEYS)]
    queues = {*installation.pipeline.queues, *installation.settings.on_end_queues}
    # kombu keeps the bindings of an application's queues (routing key, pattern, queue); its lists have the queues' names.
    for name in names:
        prefix, is_bindings, _ = name.partition(f"{BINDINGS}.")
        if is_bindings:
            bound: Any = redis.smembers(name)
            queues |= {prefix + binding.decode().rpartition(SEPARATOR)[2] for binding in bound}
    foreign = [name for name in names if not OURS.match(name) and name.partition(SEPARATOR)[0] not in queues]
    if foreign:
        yield Finding(
            f"another program keeps its data in this Redis database ({len(foreign):,} keys, such as {foreign[0]!r})",
            "give Chorale its own database: the other program may flush or fill this one, or cause evictions",
        )


def durability(installation: Installation) -> Iterator[Finding]:
    info = _info(installation)
    if not int(info.get("aof_enabled", 0)):
        yield Finding(
            "Redis keeps nothing over a restart (appendonly no): requests in flight and the outbox would be lost",
            "set `appendonly yes` in redis.conf, and now: redis-cli CONFIG SET appendonly yes",
        )
    elif info.get("aof_last_write_status", "ok") != "ok":
        yield Finding("Redis cannot write its append-only file", "see its log; usually the disk is full")


def _info(installation: Installation) -> dict[str, Any]:
    info: dict[str, Any] = installation.running_redis().info()
    return info
