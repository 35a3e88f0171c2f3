"""Redis' ACL file: what each role of an installation may do, and nothing else.  For Redis 7 or newer.

    REDIS_WORKER_PASSWORD=… REDIS_CALLER_PASSWORD=… python -m config.redis_acl > users.acl
    redis-server --aclfile users.acl

The file holds SHA-256 hashes of the passwords; a role without a password in the environment is off.  Redis judges
each command that a script runs by the same rules, so a stolen caller's login can do what `accept`, `cancel` and
`finish_failed` do, to requests whose ids it knows, and no more: it can neither list keys nor read queues or outbox.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chorale_client.keys import (
    BREAKER,
    CACHE,
    DURATIONS,
    ENTRY,
    FLIGHT,
    GENERATION,
    HEARTBEAT,
    MOMENTS,
    OUTBOX,
    OVERLOAD,
    RESULT,
    SWEEPER,
    TIMEOUTS,
)
from chorale_client.words import QUEUE_RETRIEVE

from models.errors import WrongDeclaration

SHORTEST_PASSWORD = 16
"""Characters.  A hash without salt stands in the file: what can be guessed can be found from it."""

_CONNECTION = ("ping", "select", "client|setname")
_SCRIPTS = ("eval", "evalsha", "script|load", "script|exists")
_ENDING = (
    *("get", "set", "del", "exists", "time", "pexpire", "pttl", "publish", "subscribe", "unsubscribe"),
    *("hget", "hgetall", "hmget", "hset", "hsetnx", "hdel", "hincrby"),
    *("zadd", "zrem", "xadd"),
)
"""Of the scripts that accept and end requests, and of who waits for the end."""
_PUBLISHING = ("lpush", "llen", "sadd", "smembers", "multi", "exec")
"""Of kombu, which keeps a queue's bindings in a set."""
_WORKING = (
    *("mget", "hexists", "zcard", "zscore", "zrange", "zrangebyscore", "zrevrangebyscore"),
    *("brpop", "rpop", "rpush", "llen", "lindex", "lrange", "ltrim", "lrem"),
    *("srem", "expire", "watch", "unwatch", "psubscribe", "punsubscribe"),
)
"""Of planning, joining, sweeping and consuming, kombu's acknowledgements included."""
_DRAINING = ("xread", "xdel", "xlen", "xrange", "xtrim")
_LOOKING = ("scan", "info")

_REQUESTS = (ENTRY + "*", RESULT + "*", MOMENTS, FLIGHT + "*")
_STATE = (
    GENERATION + "*",
    HEARTBEAT + "*",
    SWEEPER,
    OVERLOAD,
    BREAKER + "*",
    DURATIONS + "*",
    TIMEOUTS,
    CACHE + "*",
)
_QUEUES = ("chorale.*", "_kombu.*", "unacked*")
_REMOTE_CONTROL = ("*.celery.pidbox", "_kombu.binding*.celeryev", "_kombu.binding*celery.pidbox")
_EVENTS = ("/0.celeryev/*", "/0.celeryev", "/0.celery.pidbox")
"""Channels.  kombu puts the number of the database in front, and Redis wants a pattern that is subscribed to as it
stands here: the file is for database 0."""


@dataclass(frozen=True, slots=True)
class Role:
    """One user of the Redis server, whose password is in the variable `REDIS_<NAME>_PASSWORD`."""

    name: str
    keys: tuple[str, ...]
    """Patterns, to read and write; `%R~` in front of one that may be read only."""
    commands: tuple[str, ...]
    channels: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"REDIS_{self.name.upper()}_PASSWORD"

    def rule(self, password: str | None) -> str:
        """Its line of the file; off without a password."""
        state = ["on", f"#{hashlib.sha256(password.encode()).hexdigest()}"] if password else ["off"]
        keys = [key if key.startswith("%") else f"~{key}" for key in self.keys]
        channels = [f"&{channel}" for channel in self.channels]
        commands = [f"+{command}" for command in dict.fromkeys(self.commands)]
        rules = ["reset", *state, *keys, "resetchannels", *channels, "-@all", *commands]
        return " ".join(["user", self.name, *rules])


ROLES: Mapping[str, Role] = {
    role.name: role
    for role in (
        Role(
            "caller",  # chorale_client: web applications and whoever else asks
            keys=(
                *_REQUESTS,
                OUTBOX,
                OVERLOAD,
                f"%R~{TIMEOUTS}",
                QUEUE_RETRIEVE,
                f"_kombu.binding*.{QUEUE_RETRIEVE}",
                "_kombu.binding_deadlines",
            ),
            channels=(RESULT + "*",),
            commands=(*_CONNECTION, *_SCRIPTS, *_ENDING, *_PUBLISHING),
        ),
        Role(
            "worker",
            keys=(*_REQUESTS, *_STATE, *_QUEUES, *_REMOTE_CONTROL, OUTBOX),
            channels=(RESULT + "*", *_EVENTS),
            commands=(*_CONNECTION, *_SCRIPTS, *_ENDING, *_PUBLISHING, *_WORKING),
        ),
        Role(
            "sweeper",  # ends requests, and moves them into the audit tables
            keys=(*_REQUESTS, *_STATE, *_QUEUES, *_REMOTE_CONTROL, OUTBOX, OUTBOX + ":*"),
            channels=(RESULT + "*", *_EVENTS),
            commands=(*_CONNECTION, *_SCRIPTS, *_ENDING, *_PUBLISHING, *_WORKING, *_DRAINING),
        ),
        Role(
            "flower",  # sees events and lengths of queues, and asks workers how they are
            keys=("%R~chorale.*", *_REMOTE_CONTROL, "_kombu.binding_deadlines", "celeryev*"),
            channels=_EVENTS,
            commands=(
                *(*_CONNECTION, *_SCRIPTS, *_PUBLISHING),
                *("time", "del", "exists", "publish", "info", "brpop", "rpop", "srem"),
                *("zadd", "zrem", "zrangebyscore"),
                *("subscribe", "unsubscribe", "psubscribe", "punsubscribe"),
            ),
        ),
        Role(
            "operator",  # who types `chorale index`, `status`, `doctor`, `backup`
            keys=(*_REQUESTS, *_STATE, *_QUEUES, *_REMOTE_CONTROL, OUTBOX, OUTBOX + ":*"),
            channels=(RESULT + "*", *_EVENTS),
            commands=(*(*_CONNECTION, *_SCRIPTS, *_ENDING, *_PUBLISHING, *_WORKING, *_DRAINING, *_LOOKING),),
        ),
        Role("admin", keys=("*",), channels=("*",), commands=("@all",)),  # redis-cli, in need
    )
}


def acl_file(environ: Mapping[str, str]) -> str:
    """The whole file; raises WrongDeclaration where a password is too short, or none is given at all.

    Who has not logged in can PING, which is what health checks do.
    """
    given = {name: environ.get(role.variable, "") for name, role in ROLES.items()}
    if not any(given.values()):
        raise WrongDeclaration(
            f"no password for any role; set some of: {', '.join(role.variable for role in ROLES.values())}"
        )
    for name, password in given.items():
        if 0 < len(password) < SHORTEST_PASSWORD:
            raise WrongDeclaration(
                f"{ROLES[name].variable} has {len(password)} characters; at least {SHORTEST_PASSWORD}"
            )
    lines = ["user default reset on nopass resetchannels -@all +ping"]
    lines += [role.rule(given[name] or None) for name, role in ROLES.items()]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int | str:
    """To the file that is named, or to standard output."""
    try:
        text = acl_file(os.environ)
    except WrongDeclaration as error:
        return str(error)
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
