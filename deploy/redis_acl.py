"""Redis' ACL file: what each role of an installation may do, and nothing else.  For Redis 7 or newer.

    REDIS_WORKER_PASSWORD=… REDIS_CALLER_PASSWORD=… python -m deploy.redis_acl > users.acl
    redis-server --aclfile users.acl

The file holds SHA-256 hashes of the passwords; a role without a password in the environment is off.  Redis judges
each command that a script runs by the same rules.  A caller's login reads and writes the requests whose ids it knows,
adds to moments, outbox and its queue, and can neither list keys nor read, replace or delete any of those three; of the
outbox it learns how long it is.

What these rules cannot keep a stolen one from: entering requests, answers and entries of the outbox that nobody checks,
XADD with a MAXLEN, since Redis has no rules for options, and filling the memory or holding the server up with a script.
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
    HANDED_IN,
    HEARTBEAT,
    INDEXED,
    MOMENTS,
    NOT_DONE,
    OUTBOX,
    OUTBOX_LIMIT,
    OUTBOX_REFUSED,
    OVERLOAD,
    RESULT,
    SENT,
    SWEEPER,
    TIMEOUTS,
    WRITTEN,
)
from chorale_client.words import QUEUE_INDEX, QUEUE_RETRIEVE

from models.errors import WrongDeclaration
from tasks.celery_surface.private_names import BINDINGS, KOMBU, UNACKED

SHORTEST_PASSWORD = 16
"""Characters.  A hash without salt stands in the file: what can be guessed can be found from it."""

_CONNECTION = ("ping", "select", "client|setname")
_SCRIPTS = ("script|load", "script|exists")
_ENDING = (
    *("get", "set", "del", "exists", "time", "pexpire", "pttl", "publish", "subscribe", "unsubscribe"),
    *("hget", "hgetall", "hmget", "hset", "hsetnx", "hdel", "hincrby"),
)
"""Of the scripts that accept and end requests, and of who waits for the end."""
_PUBLISHING = ("lpush", "llen", "sadd", "smembers", "multi", "exec")
"""Of kombu, which keeps a queue's bindings in a set."""
_WORKING = (
    *("zadd", "zrem"),
    *("mget", "hexists", "zcard", "zscore", "zrange", "zrangebyscore", "zrevrangebyscore"),
    *("zremrangebyscore", "unlink"),
    *("brpop", "rpop", "rpush", "llen", "lindex", "lrange", "ltrim", "lrem"),
    *("srem", "expire", "watch", "unwatch", "psubscribe", "punsubscribe"),
)
"""Of planning, joining, sweeping and consuming, kombu's acknowledgements included."""
_DRAINING = ("xadd", "xread", "xdel", "xlen", "xrange", "xtrim", "incr")
_LOOKING = ("scan", "info")
_ROOM = "info|memory"
"""Documents are handed in where there is room for them."""

_REQUESTS = (ENTRY + "*", RESULT + "*", FLIGHT + "*")
_STATE = (
    MOMENTS,
    GENERATION + "*",
    HEARTBEAT + "*",
    SWEEPER,
    OVERLOAD,
    BREAKER + "*",
    DURATIONS + "*",
    TIMEOUTS,
    CACHE + "*",
)
_INDEXING = (INDEXED + "*", SENT + "*", HANDED_IN, NOT_DONE + "*", WRITTEN + "*")
_QUEUES = ("chorale.*", f"{KOMBU}*", f"{UNACKED}*")
_REMOTE_CONTROL = ("*.celery.pidbox", f"{BINDINGS}*.celeryev", f"{BINDINGS}*celery.pidbox")
_EVENTS = ("/0.celeryev/*", "/0.celeryev", "/0.celery.pidbox")
"""Channels.  kombu puts the number of the database in front, and Redis wants a pattern that is subscribed to as it
stands here: the file is for database 0."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Some commands on some keys."""

    keys: tuple[str, ...]
    """Patterns, to read and write; `%R~` in front of one that may be read only."""
    commands: tuple[str, ...]

    def rules(self) -> str:
        keys = [key if key.startswith("%") else f"~{key}" for key in self.keys]
        return " ".join([*keys, "-@all", *(f"+{command}" for command in dict.fromkeys(self.commands))])


@dataclass(frozen=True, slots=True)
class Role:
    """One user of the Redis server, whose password is in the variable `REDIS_<NAME>_PASSWORD`."""

    name: str
    grants: tuple[Grant, ...]
    """A command is run where one of them, alone, has it and all of its keys."""
    channels: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"REDIS_{self.name.upper()}_PASSWORD"

    def rule(self, password: str | None) -> str:
        """Its line of the file; off without a password."""
        state = ["on", f"#{hashlib.sha256(password.encode()).hexdigest()}"] if password else ["off"]
        channels = [f"&{channel}" for channel in self.channels]
        first, *others = (grant.rules() for grant in self.grants)
        selectors = [f"({rules})" for rules in others]
        return " ".join(["user", self.name, "reset", *state, "resetchannels", *channels, first, *selectors])


_CALLING = Grant(("*",), ("eval", "evalsha"))
"""A script may name any key: what it does is judged command by command."""
_AUDITING = Grant((OUTBOX, OUTBOX_REFUSED), ("xadd", "xlen", "incr"))


def _sending_to(queue: str) -> tuple[Grant, ...]:
    return Grant((queue,), ("lpush", "llen")), Grant((f"{BINDINGS}*.{queue}",), ("sadd", "smembers"))


def _asking(*also_read: str) -> tuple[Grant, ...]:
    """What `chorale_client` does to ask."""
    read = (OVERLOAD, TIMEOUTS, OUTBOX_LIMIT, *also_read)
    return (
        Grant(
            (*_REQUESTS, *(f"%R~{key}" for key in read)),
            (*_CONNECTION, *_SCRIPTS, *_ENDING, "multi", "exec"),
        ),
        _CALLING,
        _AUDITING,
        Grant((MOMENTS,), ("zadd", "zrem")),
        *_sending_to(QUEUE_RETRIEVE),
    )


_WORKERS = (*_REQUESTS, *_STATE, *_QUEUES, *_REMOTE_CONTROL)
_OUTBOXES = (OUTBOX, OUTBOX + ":*")
_WORK = (*_CONNECTION, *_SCRIPTS, *_ENDING, *_PUBLISHING, *_WORKING)
_EVERYWHERE = (RESULT + "*", *_EVENTS)

ROLES: Mapping[str, Role] = {
    role.name: role
    for role in (
        # chorale_client: web applications and whoever else asks
        Role("caller", _asking(), channels=(RESULT + "*",)),
        # a caller that hands in documents, too
        Role(
            "writer",
            (
                *_asking(INDEXED + "*"),
                *_sending_to(QUEUE_INDEX),
                Grant((HANDED_IN,), ("get", "set", _ROOM)),
                Grant((NOT_DONE + "*",), ("zadd", "zincrby", "zrem", "zscore", "expire")),
            ),
            channels=(RESULT + "*",),
        ),
        Role(
            "worker",
            (
                Grant((*_WORKERS, *_INDEXING, OUTBOX_LIMIT), _WORK),
                _CALLING,
                _AUDITING,
            ),
            channels=_EVERYWHERE,
        ),
        Role(
            "sweeper",  # ends requests, and moves them into the audit tables
            (Grant((*_WORKERS, *_OUTBOXES), (*_WORK, *_DRAINING)), _CALLING),
            channels=_EVERYWHERE,
        ),
        Role(
            "flower",  # sees events and lengths of queues, and asks workers how they are
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
            "operator",  # who types `chorale index`, `status`, `doctor`, `backup`
            (
                Grant((*_WORKERS, *_OUTBOXES, *_INDEXING), (*_WORK, *_DRAINING, *_LOOKING)),
                _CALLING,
            ),
            channels=_EVERYWHERE,
        ),
        # redis-cli, in need
        Role("admin", (Grant(("*",), ("@all",)),), channels=("*",)),
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
