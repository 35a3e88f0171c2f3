"""What each Redis login may do with each key, as a real server says it (ACL DRYRUN), is the table of docs/security.md."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import redis
from chorale_client import keys

from deploy.redis_acl import ROLES, acl_file
from tests.support.servers.redis_server import RedisServer, bundled_redis

DOCUMENT = Path(__file__).parents[2] / "docs/security.md"
TITLE = "## What each login may do with each key"
OF_A_GROUP = (
    *("XREADGROUP GROUP g c STREAMS {} >", "XACK {} g 1-1", "XCLAIM {} g c 0 1-1", "XAUTOCLAIM {} g c 0 0-0"),
    "XGROUP CREATE {} g 0",
)
"""An entry that one consumer of a group takes is kept from the others."""
COMMANDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "string": {
        "r": ("GET {}", "MGET {}"),
        "w": ("SET {} x", "SETEX {} 9 x", "INCR {}", "INCRBY {} 9", "APPEND {} x"),
        "d": ("GETDEL {}",),
    },
    "hash": {
        "r": ("HGET {} x", "HGETALL {}", "HMGET {} x"),
        "w": ("HSET {} x y", "HSETNX {} x y", "HINCRBY {} x 9"),
        "d": ("HDEL {} x",),
    },
    "list": {
        "r": ("LRANGE {} 0 -1", "LINDEX {} 0"),
        "w": ("LPUSH {} x", "RPUSH {} x", "LSET {} 0 x"),
        "d": ("BLPOP {} 1", "BRPOP {} 1", "RPOP {}", "LREM {} 1 x", "LTRIM {} 1 2"),
    },
    "sorted set": {
        "r": ("ZRANGE {} 0 -1", "ZRANGEBYSCORE {} 0 9", "ZSCORE {} x"),
        "w": ("ZADD {} 1 x", "ZINCRBY {} 1 x"),
        "d": ("ZREM {} x", "ZREMRANGEBYSCORE {} 0 9"),
    },
    "set": {"r": ("SMEMBERS {}", "SISMEMBER {} x"), "w": ("SADD {} x",), "d": ("SREM {} x", "SPOP {}")},
    "stream": {
        "r": ("XRANGE {} - +", "XREAD STREAMS {} 0"),
        "w": ("XADD {} * x y",),
        "d": ("XDEL {} 1-1", "XTRIM {} MAXLEN 0", "XADD {} MAXLEN 0 * x y", *OF_A_GROUP),
    },
}
"""The commands that read a key, write to it, and delete from it, by the type of the key.  Commands that return a length alone, which callers
need of the outbox, are not among them."""
OF_EVERY_TYPE = ("DEL {}", "UNLINK {}", "EXPIRE {} 0", "PEXPIRE {} 0", "RENAME {} {}")
QUEUES = ("chorale.retrieve", "chorale.bm25", "chorale.fusion", "chorale.bulk", "chorale.index", "app")
"""`app` is a queue of CHORALE_ON_END_QUEUES."""
OUTSIDE = ("caller", "application", "writer", "http", "flower")
"""The logins of others than workers, sweeper and operator."""
TO_WRITE = {
    *(
        "chorale:request:<id>",
        "celery-task-meta-<id>",
        "celery-task-meta-<id>:<branch>",
        "celery-taskset-meta-<id>",
    ),
    *("chorale:moments", "chorale:outbox", "chorale:outbox:refused"),
    *("chorale:job:commands", "chorale:job:reply:<caller>", "chorale:handed_in", "chorale:not_done:<ns>"),
    *("chorale:rules", "chorale:rate:<key>", "chorale:session:<hash>"),
    *("chorale.retrieve", "chorale.index", "app"),
}
"""The keys that these logins may write: requests, what callers hand in, and the keys of the HTTP API."""


def types() -> dict[str, str]:
    """The type of each key, as the docstring of `chorale_client.keys` has it, and of each queue."""
    rows = re.findall(r"^\| ((?:chorale|celery)[^|]*?) +\| ([a-z ]+?) +\|", keys.__doc__ or "", re.MULTILINE)
    return dict(rows) | dict.fromkeys(QUEUES, "list")


@pytest.fixture(scope="module", params=["on the PATH", "bundled"])
def admin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    acl = tmp_path_factory.mktemp("acl") / "users.acl"
    passwords = {role.variable: "correct-horse-battery" for role in ROLES.values()}
    acl.write_text(acl_file({**passwords, "CHORALE_ON_END_QUEUES": "app"}))
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "bundled":
            folder = tmp_path_factory.mktemp("bundled")
            (folder / "redis-server").symlink_to(bundled_redis())
            patch.setenv("PATH", str(folder), prepend=os.pathsep)
        server = RedisServer(aclfile=str(acl))
        try:
            # Without a login it may only be pinged.
            server.start()
            with server.client(username="admin", password="correct-horse-battery") as client:
                yield client
        finally:
            server.close()


def may(admin: redis.Redis, login: str, command: str, key: str) -> bool:
    words = [key if word == "{}" else word for word in command.split()]
    return bool(admin.execute_command("ACL", "DRYRUN", login, *words) == b"OK")


def rights(admin: redis.Redis, login: str, key: str, kind: str) -> str:
    """Some of the letters `rwd`; what stands in angle brackets is any text."""
    key = re.sub("<.*?>", "x", key)
    commands = {**COMMANDS[kind], "d": (*COMMANDS[kind]["d"], *OF_EVERY_TYPE)}
    return "".join(
        letter for letter, those in commands.items() if any(may(admin, login, one, key) for one in those)
    )


def table(admin: redis.Redis) -> list[str]:
    logins = [name for name in ROLES if name != "admin"]
    head = ["| key | " + " | ".join(f"`{name}`" for name in logins) + " |", "|---" * (len(logins) + 1) + "|"]
    return head + [
        f"| `{key}` | " + " | ".join(rights(admin, login, key, kind) or "–" for login in logins) + " |"
        for key, kind in types().items()
    ]


def test_the_table_of_the_page_is_what_the_server_allows(admin: redis.Redis) -> None:
    section = DOCUMENT.read_text().partition(TITLE)[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    allowed = table(admin)
    assert lines == allowed, "\n".join(allowed)


def test_only_the_service_writes_what_the_service_owns(admin: redis.Redis) -> None:
    writable = {
        key
        for key, kind in types().items()
        for login in OUTSIDE
        if {*"wd"} & {*rights(admin, login, key, kind)}
    }
    assert writable == TO_WRITE
