"""Writes Redis' ACL file, which allows each role of an installation only what it needs.  For Redis 7 or newer.

    REDIS_WORKER_PASSWORD=… REDIS_CALLER_PASSWORD=… python -m deploy.redis_acl users.acl
    redis-server --aclfile users.acl --protected-mode no

The file contains SHA-256 hashes of the passwords; a role without a password in the environment is off.  The rules also
apply to each command inside a script.  A caller's login can read and write the requests whose ids it knows.  It can add
to the moments, the outbox and its queue, but cannot read, replace or delete these three, apart from the length of the
outbox, and cannot list keys.  It can submit bulk jobs, and see and steer all of them.

These rules do not stop a stolen caller's login from entering unchecked requests, answers and outbox entries, from XADD
with a MAXLEN (Redis has no rules for options), and from filling the memory or blocking the server with a script.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chorale_client import keys
from chorale_client.wire_names import QUEUE_INDEX, QUEUE_RETRIEVE
from pydantic import TypeAdapter, ValidationError

from models.errors import WrongDeclaration
from tasks.celery_internals.visibility import BINDINGS, KOMBU

SHORTEST_PASSWORD = 16
"""Minimum characters.  The file contains hashes without salt, so a password that can be guessed can be found."""

_CONNECTION = ("ping", "select", "client|setname")
_SCRIPTS = ("script|load", "script|exists")
_ENDING = (
    *("get", "set", "del", "exists", "time", "pexpire", "pttl", "publish", "subscribe", "unsubscribe"),
    *("hget", "hgetall", "hmget", "hset", "hsetnx", "hdel", "hincrby"),
)
"""Commands of the scripts that accept and end requests, and of callers that wait for the end."""
_RESULTS = ("mget", "setex", "expire")
"""Further commands of Celery's results, of a group for example."""
_PUBLISHING = ("lpush", "llen", "sadd", "smembers", "multi", "exec")
"""Commands of kombu's publishing; kombu stores a queue's bindings in a set."""
_WORKING = (
    *("zadd", "zrem"),
    *("mget", "hexists", "hlen", "zcard", "zscore", "zrange", "zrangebyscore", "zrevrangebyscore"),
    *("zremrangebyscore", "unlink"),
    *("brpop", "rpop", "rpush", "llen", "lindex", "lrange", "ltrim", "lrem"),
    *("srem", "expire", "watch", "unwatch", "psubscribe", "punsubscribe"),
)
"""Commands of planning, joining, sweeping and consuming, with kombu's acknowledgements."""
_CONSUMING = (
    *("brpop", "rpop", "lpush", "rpush", "llen", "sadd", "srem", "smembers", "del", "exists"),
    *("hset", "hget", "hdel", "zadd", "zrem", "zrange", "zrangebyscore", "zrevrangebyscore", "time"),
    *("multi", "exec", "watch", "unwatch", "get", "set", "pexpire", "publish", "psubscribe", "punsubscribe"),
)
"""Commands of an ordinary Celery worker on its broker."""
_CHORDS = (
    *("get", "set", "exists", "expire", "del", "incrby", "sismember", "sadd"),
    *("zadd", "zcount", "zrange", "rpush", "lrange", "llen"),
)
_DRAINING = (
    *("xadd", "xread", "xdel", "xlen", "xrange", "xtrim", "incr"),
    *("xreadgroup", "xautoclaim", "xclaim", "xack", "xgroup|create"),
)
_INSPECTION = ("scan", "info", "bgrewriteaof")
_MEMORY_INFO = "info|memory"
"""Documents are accepted only if Redis has room for them."""

_GROUPS = keys.GROUP_RESULT + "*"
"""Celery's results of groups, and the counts of an application's chords."""
_REQUESTS = (keys.ENTRY + "*", keys.RESULT + "*", _GROUPS)
_STATE = (
    keys.WAKEUPS,
    keys.GENERATION + "*",
    keys.RULES,
    keys.ADAPTED,
    keys.ADAPTER,
    keys.HEARTBEAT + "*",
    keys.SERVED + "*",
    keys.SWEEPER,
    keys.FEEDER,
    keys.REVOKED,
    keys.OVERLOAD,
    keys.BREAKER + "*",
    keys.DURATIONS + "*",
    keys.TIMEOUTS,
    keys.CACHE + "*",
    # A caller could make another one's request wait for its own, or answer it.
    keys.COALESCING + "*",
    keys.FOLLOWERS + "*",
    keys.SIGNING,
    keys.READY,
    keys.QUARANTINE,
    keys.UNACKED + "*",
)
_INDEXING = (keys.INDEXED + "*", keys.SENT + "*", keys.HANDED_IN, keys.NOT_DONE + "*", keys.WRITTEN + "*")
_JOBS = (keys.FEEDER, keys.JOB_COMMANDS, keys.JOB_REPLY + "*")
_QUEUES = ("chorale.*", f"{KOMBU}*")
_BOUND = (f"{BINDINGS}*.celeryev",)
_OWN_BROKER_KEYS = (
    *("unacked", "unacked_index", "unacked_mutex"),
    *("*.celery.pidbox*", "celeryev*", f"{BINDINGS}*.celeryev", f"{BINDINGS}_deadlines"),
)
"""Keys that Celery uses for an application beside its queues.  Chorale's own keys have other names."""
_REMOTE_CONTROL = ("*.celery.pidbox", f"{BINDINGS}*celery.pidbox")
_EVENTS = ("/0.celeryev/*", "/0.celeryev")
_COMMANDS = ("/0.celery.pidbox",)
"""Channels.  kombu's channel names start with the number of the database, and Redis requires the exact pattern that is
subscribed to, so the file is for database 0."""


_SPECIAL = re.compile(r"[\s*?\[\]\\()]")
"""Characters that mean something in the file: `?` stands for each in the name of a queue."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Some commands on some keys and channels."""

    keys: tuple[str, ...]
    """Patterns of keys to read and write; `%R~` before a pattern makes it read-only."""
    commands: tuple[str, ...]
    channels: tuple[str, ...] = ()
    """Patterns of channels for these commands alone."""

    def rules(self) -> str:
        patterns = [key if key.startswith("%") else f"~{key}" for key in self.keys]
        named = [f"&{channel}" for channel in self.channels]
        return " ".join(
            [*patterns, *named, "-@all", *(f"+{command}" for command in dict.fromkeys(self.commands))]
        )


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

    def rule(self, password: str | None, more: Iterable[Grant] = (), channels: Iterable[str] = ()) -> str:
        """The role's line of the file, with some grants and channels more; the role is off without a password."""
        state = ["on", f"#{hashlib.sha256(password.encode()).hexdigest()}"] if password else ["off"]
        first, *others = (grant.rules() for grant in (*self.grants, *more))
        selectors = [f"({rules})" for rules in others]
        named = [f"&{channel}" for channel in (*self.channels, *channels)]
        return " ".join(["user", self.name, "reset", *state, "resetchannels", *named, first, *selectors])


_CALLING = Grant(("*",), ("eval", "evalsha"))
"""A script may name any key; the rules apply to each of its commands."""
_AUDITING = Grant((keys.OUTBOX, keys.OUTBOX_REFUSED), ("xadd", "xlen", "incr"))


_READ_BY_THE_EXPORTER = (
    *(keys.METRICS, keys.WAKEUPS, keys.OUTBOX, keys.OUTBOX_LIMIT, keys.OUTBOX_REFUSED, keys.OVERLOAD),
    *(keys.SWEEPER, keys.BREAKER + "*", keys.QUARANTINE),
)
_HEARTBEATS = Grant((f"%R~{keys.HEARTBEAT}*",), ("mget", "scan"))
"""`/readyz`.  Nobody knows the names of all workers, so it lists keys."""
_SEEING = Grant(
    tuple(f"%R~{key}" for key in _READ_BY_THE_EXPORTER),
    ("mget", "exists", "hget", "hgetall", "hlen", "hmget", "zrange", "zcard", "xlen", "time"),
)
"""`monitoring.exporter`."""


def _sending_to(queue: str) -> tuple[Grant, ...]:
    return (
        Grant((queue,), ("lpush", "llen")),
        # An application with Celery's own settings also asks for the lists of other priorities: "\x06\x16" and a digit.
        Grant((f"%R~{queue}??[369]",), ("llen",)),
        Grant((f"{BINDINGS}*.{queue}",), ("sadd", "smembers")),
    )


def _consuming(queues: Sequence[str]) -> Grant:
    """What a Celery worker of an application does with the broker.  One BRPOP names all its queues."""
    lists = [key for queue in queues for key in (queue, f"{queue}??[369]")]
    bindings = [f"{BINDINGS}*.{queue}" for queue in queues]
    # Not among the role's channels: PSUBSCRIBE to all results would show everybody's answers.
    channels = (*_EVENTS, "/0.celeryev/worker.*", *_COMMANDS)
    return Grant((*lists, *bindings, *_OWN_BROKER_KEYS), _CONSUMING, channels)


def _caller_grants(*also_read: str) -> tuple[Grant, ...]:
    """The grants that `chorale_client` needs to send requests."""
    read = (keys.OVERLOAD, keys.TIMEOUTS, keys.OUTBOX_LIMIT, keys.SERVED + "*", *also_read)
    return (
        Grant(
            (*_REQUESTS, *(f"%R~{key}" for key in read)),
            (*_CONNECTION, *_SCRIPTS, *_ENDING, *_RESULTS, "multi", "exec", "wait"),
        ),
        _CALLING,
        _AUDITING,
        Grant((keys.WAKEUPS,), ("zadd", "zrem")),
        Grant((keys.JOB_COMMANDS,), ("lpush", "llen", "pexpire", _MEMORY_INFO)),
        Grant((keys.JOB_REPLY + "*",), ("blpop",)),
        *_sending_to(QUEUE_RETRIEVE),
    )


_WRITING = (
    *_caller_grants(keys.INDEXED + "*"),
    *_sending_to(QUEUE_INDEX),
    Grant((keys.HANDED_IN,), ("get", "set", _MEMORY_INFO)),
    Grant((keys.NOT_DONE + "*",), ("zadd", "zincrby", "zrem", "zscore", "expire")),
)

_WORKERS = (*_REQUESTS, *_STATE, *_QUEUES, *_BOUND, *_REMOTE_CONTROL)
_OUTBOXES = (keys.OUTBOX, keys.OUTBOX + ":*", keys.METRICS)
_WORK = (*_CONNECTION, *_SCRIPTS, *_ENDING, *_PUBLISHING, *_WORKING)
_ANSWERS = (keys.RESULT + "*", _GROUPS)
_EVERYWHERE = (keys.RESULT + "*", *_EVENTS, *_COMMANDS)

_WATCHING = (
    *(*_CONNECTION, *_SCRIPTS, *_CALLING.commands, *_PUBLISHING),
    *("time", "del", "exists", "publish", "info", "brpop", "rpop", "srem"),
    *("zadd", "zrem", "zrangebyscore"),
    *("subscribe", "unsubscribe", "psubscribe", "punsubscribe"),
)

ROLES: Mapping[str, Role] = {
    role.name: role
    for role in (
        # chorale_client: applications that send requests
        Role("caller", _caller_grants(), channels=_ANSWERS),
        # an application's own Celery workers, which also ask
        Role("application", (*_caller_grants(), Grant((_GROUPS,), _CHORDS)), channels=_ANSWERS),
        # a caller that also hands in documents
        Role("writer", _WRITING, channels=_ANSWERS),
        # the HTTP API: a writer that counts the calls of each key, and copies rules
        Role(
            "http",
            (
                *_WRITING,
                Grant((keys.RATE + "*",), ("set", "incrby", "pttl")),
                Grant((keys.RULES,), ("hget", "hset", "hdel", "watch", "unwatch")),
                _SEEING,
                _HEARTBEATS,
                Grant(tuple(f"%R~{name}" for name in _QUEUES), ("llen",)),
            ),
            channels=(keys.RESULT + "*",),
        ),
        Role(
            "worker",
            (
                Grant((*_WORKERS, *_INDEXING, keys.OUTBOX_LIMIT), _WORK),
                Grant((keys.METRICS,), ("hincrby",)),
                _CALLING,
                _AUDITING,
            ),
            channels=_EVERYWHERE,
        ),
        Role(
            "sweeper",  # ends requests, moves them to the audit tables, and feeds bulk jobs
            (Grant((*_WORKERS, *_OUTBOXES, *_JOBS), (*_WORK, *_DRAINING)), _CALLING),
            channels=_EVERYWHERE,
        ),
        Role(
            "flower",  # sees events and lengths of queues
            (Grant(("%R~chorale.*", *_BOUND, f"{BINDINGS}_deadlines", "celeryev*"), _WATCHING),),
            channels=_EVENTS,
        ),
        Role(
            "operator",  # runs `chorale index`, `status`, `doctor`, `backup`
            (Grant((*_WORKERS, *_OUTBOXES, *_INDEXING), (*_WORK, *_DRAINING, *_INSPECTION)), _CALLING),
            channels=_EVERYWHERE,
        ),
        # redis-cli in emergencies
        Role("admin", (Grant(("*",), ("@all",)),), channels=("*",)),
    )
}


def acl_file(environ: Mapping[str, str]) -> str:
    """The whole file; raises WrongDeclaration if a password is too short, or if there is no password at all.

    Without a login only PING is allowed, for health checks.  Sweeper and callers may send tasks to CHORALE_ON_END_QUEUES, and
    an application's workers take them.  Flower may command workers if CHORALE_REMOTE_CONTROL is true.
    """
    passwords = {name: environ.get(role.variable, "") for name, role in ROLES.items()}
    if not any(passwords.values()):
        raise WrongDeclaration(
            f"no password for any role; set some of: {', '.join(role.variable for role in ROLES.values())}"
        )
    for name, password in passwords.items():
        if 0 < len(password) < SHORTEST_PASSWORD:
            raise WrongDeclaration(
                f"{ROLES[name].variable} has {len(password)} characters; at least {SHORTEST_PASSWORD} are needed"
            )
    names = [name.strip() for name in environ.get("CHORALE_ON_END_QUEUES", "").split(",") if name.strip()]
    queues = [_SPECIAL.sub("?", name) for name in names]
    more: dict[str, tuple[Grant, ...]] = {}
    if queues:
        more["sweeper"] = (Grant(tuple(queues), ("lpush",)),)
        more["caller"] = more["writer"] = tuple(grant for queue in queues for grant in _sending_to(queue))
        more["application"] = (_consuming(queues),)
    channels: dict[str, tuple[str, ...]] = {}
    if _is_on(environ.get("CHORALE_REMOTE_CONTROL", "")):
        more["flower"] = (Grant((*_REMOTE_CONTROL, f"{BINDINGS}_deadlines"), _WATCHING),)
        channels["flower"] = _COMMANDS
    lines = ["user default reset on nopass resetchannels -@all +ping"]
    lines += [
        role.rule(passwords[name] or None, more.get(name, ()), channels.get(name, ()))
        for name, role in ROLES.items()
    ]
    return "\n".join(lines) + "\n"


def _is_on(value: str) -> bool:
    """Reads a value as the settings do; raises WrongDeclaration."""
    try:
        return bool(value) and TypeAdapter(bool).validate_python(value)
    except ValidationError:
        raise WrongDeclaration(f"CHORALE_REMOTE_CONTROL={value[:20]!r}: true or false") from None


def main(arguments: list[str]) -> int | str:
    """Write to the named file, which only its owner may read, or to standard output."""
    try:
        text = acl_file(os.environ)
    except WrongDeclaration as error:
        return str(error)
    if arguments:
        descriptor = os.open(arguments[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.fchmod(descriptor, 0o600)  # a file that was there keeps its own
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
