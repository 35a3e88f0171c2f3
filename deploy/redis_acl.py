"""Writes Redis' ACL file, which allows each role of an installation only what it needs.  For Redis 7 or newer.

    REDIS_WORKER_PASSWORD=… REDIS_CALLER_PASSWORD=… python -m deploy.redis_acl > users.acl
    redis-server --aclfile users.acl

The file contains SHA-256 hashes of the passwords; a role without a password in the environment is off.  The rules also
apply to each command inside a script.  A caller's login can read and write the requests whose ids it knows.  It can add
to the moments, the outbox and its queue, but cannot read, replace or delete these three, apart from the length of the
outbox, and cannot list keys.

These rules do not stop a stolen caller's login from entering unchecked requests, answers and outbox entries, from XADD
with a MAXLEN (Redis has no rules for options), and from filling the memory or blocking the server with a script.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chorale_client import keys
from chorale_client.words import QUEUE_INDEX, QUEUE_RETRIEVE

from models.errors import WrongDeclaration
from tasks.celery_surface.kombu_keys import BINDINGS, KOMBU, UNACKED

SHORTEST_PASSWORD = 16
"""Minimum characters.  The file contains hashes without salt, so a password that can be guessed can be found."""

_CONNECTION = ("ping", "select", "client|setname")
_SCRIPTS = ("script|load", "script|exists")
_ENDING = (
    *("get", "set", "del", "exists", "time", "pexpire", "pttl", "publish", "subscribe", "unsubscribe"),
    *("hget", "hgetall", "hmget", "hset", "hsetnx", "hdel", "hincrby"),
)
"""Commands of the scripts that accept and end requests, and of callers that wait for the end."""
_PUBLISHING = ("lpush", "llen", "sadd", "smembers", "multi", "exec")
"""Commands of kombu's publishing; kombu stores a queue's bindings in a set."""
_WORKING = (
    *("zadd", "zrem"),
    *("mget", "hexists", "zcard", "zscore", "zrange", "zrangebyscore", "zrevrangebyscore"),
    *("zremrangebyscore", "unlink"),
    *("brpop", "rpop", "rpush", "llen", "lindex", "lrange", "ltrim", "lrem"),
    *("srem", "expire", "watch", "unwatch", "psubscribe", "punsubscribe"),
)
"""Commands of planning, joining, sweeping and consuming, with kombu's acknowledgements."""
_DRAINING = ("xadd", "xread", "xdel", "xlen", "xrange", "xtrim", "incr")
_LOOKING = ("scan", "info")
_ROOM = "info|memory"
"""Documents are accepted only if Redis has room for them."""

_REQUESTS = (keys.ENTRY + "*", keys.RESULT + "*", keys.FLIGHT + "*")
_STATE = (
    keys.MOMENTS,
    keys.GENERATION + "*",
    keys.HEARTBEAT + "*",
    keys.SWEEPER,
    keys.OVERLOAD,
    keys.BREAKER + "*",
    keys.DURATIONS + "*",
    keys.TIMEOUTS,
    keys.CACHE + "*",
)
_INDEXING = (keys.INDEXED + "*", keys.SENT + "*", keys.HANDED_IN, keys.NOT_DONE + "*", keys.WRITTEN + "*")
_QUEUES = ("chorale.*", f"{KOMBU}*", f"{UNACKED}*")
_REMOTE_CONTROL = ("*.celery.pidbox", f"{BINDINGS}*.celeryev", f"{BINDINGS}*celery.pidbox")
_EVENTS = ("/0.celeryev/*", "/0.celeryev", "/0.celery.pidbox")
"""Channels.  kombu's channel names start with the number of the database, and Redis requires the exact pattern that is
subscribed to, so the file is for database 0."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Some commands on some keys."""

    keys: tuple[str, ...]
    """Patterns of keys to read and write; `%R~` before a pattern makes it read-only."""
    commands: tuple[str, ...]

    def rules(self) -> str:
        patterns = [key if key.startswith("%") else f"~{key}" for key in self.keys]
        return " ".join([*patterns, "-@all", *(f"+{command}" for command in dict.fromkeys(self.commands))])


@dataclass(frozen=True, slots=True)
class Role:
    """A user of the Redis server; the variable `REDIS_<NAME>_PASSWORD` has the password."""

    name: str
    grants: tuple[Grant, ...]
    """A command is allowed if a single grant has it and all its keys."""
    channels: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"REDIS_{self.name.upper()}_PASSWORD"

    def rule(self, password: str | None) -> str:
        """The role's line of the file; the role is off without a password."""
        state = ["on", f"#{hashlib.sha256(password.encode()).hexdigest()}"] if password else ["off"]
        channels = [f"&{channel}" for channel in self.channels]
        first, *others = (grant.rules() for grant in self.grants)
        selectors = [f"({rules})" for rules in others]
        return " ".join(["user", self.name, "reset", *state, "resetchannels", *channels, first, *selectors])


_CALLING = Grant(("*",), ("eval", "evalsha"))
"""A script may name any key; the rules apply to each of its commands."""
_AUDITING = Grant((keys.OUTBOX, keys.OUTBOX_REFUSED), ("xadd", "xlen", "incr"))


def _sending_to(queue: str) -> tuple[Grant, ...]:
    return Grant((queue,), ("lpush", "llen")), Grant((f"{BINDINGS}*.{queue}",), ("sadd", "smembers"))


def _asking(*also_read: str) -> tuple[Grant, ...]:
    """The grants that `chorale_client` needs to send requests."""
    read = (keys.OVERLOAD, keys.TIMEOUTS, keys.OUTBOX_LIMIT, *also_read)
    return (
        Grant(
            (*_REQUESTS, *(f"%R~{key}" for key in read)),
            (*_CONNECTION, *_SCRIPTS, *_ENDING, "multi", "exec"),
        ),
        _CALLING,
        _AUDITING,
        Grant((keys.MOMENTS,), ("zadd", "zrem")),
        *_sending_to(QUEUE_RETRIEVE),
    )


_WORKERS = (*_REQUESTS, *_STATE, *_QUEUES, *_REMOTE_CONTROL)
_OUTBOXES = (keys.OUTBOX, keys.OUTBOX + ":*")
_WORK = (*_CONNECTION, *_SCRIPTS, *_ENDING, *_PUBLISHING, *_WORKING)
_EVERYWHERE = (keys.RESULT + "*", *_EVENTS)

ROLES: Mapping[str, Role] = {
    role.name: role
    for role in (
        # chorale_client: applications that send requests
        Role("caller", _asking(), channels=(keys.RESULT + "*",)),
        # a caller that also hands in documents
        Role(
            "writer",
            (
                *_asking(keys.INDEXED + "*"),
                *_sending_to(QUEUE_INDEX),
                Grant((keys.HANDED_IN,), ("get", "set", _ROOM)),
                Grant((keys.NOT_DONE + "*",), ("zadd", "zincrby", "zrem", "zscore", "expire")),
            ),
            channels=(keys.RESULT + "*",),
        ),
        Role(
            "worker",
            (Grant((*_WORKERS, *_INDEXING, keys.OUTBOX_LIMIT), _WORK), _CALLING, _AUDITING),
            channels=_EVERYWHERE,
        ),
        Role(
            "sweeper",  # ends requests, and moves them to the audit tables
            (Grant((*_WORKERS, *_OUTBOXES), (*_WORK, *_DRAINING)), _CALLING),
            channels=_EVERYWHERE,
        ),
        Role(
            "flower",  # sees events and lengths of queues, and asks workers for their state
            (
                Grant(
                    ("%R~chorale.*", *_REMOTE_CONTROL, f"{BINDINGS}_deadlines", "celeryev*"),
                    (
                        *(*_CONNECTION, *_SCRIPTS, *_CALLING.commands, *_PUBLISHING),
                        *("time", "del", "exists", "publish", "info", "brpop", "rpop", "srem"),
                        *("zadd", "zrem", "zrangebyscore"),
                        *("subscribe", "unsubscribe", "psubscribe", "punsubscribe"),
                    ),
                ),
            ),
            channels=_EVENTS,
        ),
        Role(
            "operator",  # runs `chorale index`, `status`, `doctor`, `backup`
            (Grant((*_WORKERS, *_OUTBOXES, *_INDEXING), (*_WORK, *_DRAINING, *_LOOKING)), _CALLING),
            channels=_EVERYWHERE,
        ),
        # redis-cli in emergencies
        Role("admin", (Grant(("*",), ("@all",)),), channels=("*",)),
    )
}


def acl_file(environ: Mapping[str, str]) -> str:
    """The whole file; raises WrongDeclaration if a password is too short, or if there is no password at all.

    Without a login only PING is allowed, for health checks.
    """
    given = {name: environ.get(role.variable, "") for name, role in ROLES.items()}
    if not any(given.values()):
        raise WrongDeclaration(
            f"no password for any role; set some of: {', '.join(role.variable for role in ROLES.values())}"
        )
    for name, password in given.items():
        if 0 < len(password) < SHORTEST_PASSWORD:
            raise WrongDeclaration(
                f"{ROLES[name].variable} has {len(password)} characters; at least {SHORTEST_PASSWORD} are needed"
            )
    lines = ["user default reset on nopass resetchannels -@all +ping"]
    lines += [role.rule(given[name] or None) for name, role in ROLES.items()]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int | str:
    """Write to the named file, or to standard output."""
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
