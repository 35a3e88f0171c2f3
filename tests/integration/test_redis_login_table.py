"""What each Redis login may do with each key and channel, by each of its commands and as a real server says it (ACL DRYRUN), is the
table of docs/security.md."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from chorale_client import keys

from deploy.redis_acl import ROLES, acl_file
from tests.support.servers.redis_server import RedisServer, bundled_redis

DOCUMENT = Path(__file__).parents[2] / "docs/security.md"
TITLE = "## What each login may do with each key"
LETTERS = {"r": {"access"}, "w": {"insert", "update"}, "d": {"delete"}}
"""The letters of the page, by what the server says that a command does with a key."""
DELETE_BY_AN_OPTION = {"xadd", "expire", "pexpire"}
"""The server calls these commands updates.  They delete with `MAXLEN 0` or a time of 0."""
SCRIPTS = {"eval", "evalsha"}
"""A script may name any key, and the rules apply to each of its commands."""
OVERWRITES = {"OW", "variable_flags"}
"""Marks of commands that write to a key of any type."""
KNOWN = (
    "celery-task-meta-<id>",
    "celery-taskset-meta-<id>",
    "/0.celeryev/worker.heartbeat",
    "/0.celery.pidbox",
)
PATTERNS = ("celery-task-meta-*", "celery-taskset-meta-*", "/0.celeryev/*", "*")
CHANNELS = {f"channel `{channel}`": {"subscribe": "r", "publish": "w"} for channel in KNOWN} | {
    f"channels `{pattern}`": {"psubscribe": "r"} for pattern in PATTERNS
}
"""The commands that listen to a channel or publish on it."""
DANGEROUS: Mapping[str, set[str]] = {
    **{login: {"info|memory"} for login in ("caller", "application", "writer", "http")},
    "flower": {"info"},
    "operator": {"info", "bgrewriteaof"},
}
"""The commands in the category @dangerous that the logins have."""
QUEUES = ("chorale.retrieve", "chorale.bm25", "chorale.fusion", "chorale.bulk", "chorale.index", "app")
"""`app` is a queue of CHORALE_ON_END_QUEUES."""
TYPES = {"@string", "@hash", "@list", "@sortedset", "@set", "@stream"}
LOGINS = [name for name in ROLES if name != "admin"]
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
    *("chorale:rules", "chorale:rate:<key>"),
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
            with server.client(
                username="admin", password="correct-horse-battery", decode_responses=True
            ) as client:
                yield client
        finally:
            server.close()


def commands(admin: redis.Redis, login: str) -> dict[str, Any]:
    """The commands that a login may call, each with the server's description."""
    names = sorted({*re.findall(r"\+([a-z0-9|-]+)", str(admin.acl_getuser(login)))})
    # Some servers describe `info|memory` under its first word alone.
    known = admin.execute_command("COMMAND INFO", *names)
    parents = admin.execute_command("COMMAND INFO", *(name.partition("|")[0] for name in names))
    return {name: one or other for name, one, other in zip(names, known, parents, strict=True)}


def words(name: str, about: Any, key: str) -> list[str]:
    """A call of the command on this key, with as many words as the server says that it needs."""
    parts = name.split("|")
    said = [*parts, *[key] * 9][: max(abs(about[1]), len(parts))]
    for key_spec in about[8]:
        begin = key_spec["begin_search"]["spec"]
        if "keyword" in begin:  # STREAMS
            said[begin["startfrom"]] = begin["keyword"]
    return said


def letters(name: str, about: Any, kind: str) -> set[str]:
    """What a command does with a key of this type."""
    does = {flag for key_spec in about[8] for flag in key_spec["flags"]}
    categories = TYPES & {*about[6]}
    if categories and f"@{kind.replace(' ', '')}" not in categories and not does & OVERWRITES:
        return set()
    effects = {letter for letter, flags in LETTERS.items() if flags & does}
    return effects | {"d"} if name in DELETE_BY_AN_OPTION else effects


@pytest.fixture(scope="module")
def rights(admin: redis.Redis) -> Mapping[tuple[str, str], set[str]]:
    """The letters of each key or channel, as the page writes it, and login.  Text in angle brackets stands for any text."""
    calls = []
    for login in LOGINS:
        may = commands(admin, login)
        dangerous = {name for name, about in may.items() if "@dangerous" in about[6]}
        assert dangerous == DANGEROUS.get(login, set())
        # No command copies or moves one key to another.
        assert [name for name, about in may.items() if len(about[8]) > 1] == []
        for key, kind in types().items():
            calls += [
                (f"`{key}`", login, effects, words(name, about, re.sub("<.*?>", "x", key)))
                for name, about in may.items()
                if name not in SCRIPTS and (effects := letters(name, about, kind))
            ]
        for channel, does in CHANNELS.items():
            name = re.sub("<.*?>", "x", channel.split("`")[1])
            calls += [
                (channel, login, {letter}, [command, name, *["x"] * (command == "publish")])
                for command, letter in does.items()
            ]
    with admin.pipeline(transaction=False) as trip:
        for _, login, _, command in calls:
            trip.execute_command("ACL DRYRUN", login, *command)
        said = trip.execute()
    allowed = defaultdict[tuple[str, str], set[str]](set)
    for (key, login, effects, _), answer in zip(calls, said, strict=True):
        allowed[key, login] |= effects if answer == "OK" else set()
    return allowed


def test_the_table_of_the_page_is_what_the_server_allows(rights: Mapping[tuple[str, str], set[str]]) -> None:
    section = DOCUMENT.read_text().partition(TITLE)[2].partition("\n## ")[0]
    rows = [
        [key, *("".join(sorted(rights[key, login], key="rwd".index)) or "–" for login in LOGINS)]
        for key in (*(f"`{key}`" for key in types()), *CHANNELS)
    ]
    head = ["key or channel", *(f"`{login}`" for login in LOGINS)]
    allowed = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    allowed.insert(1, "|---" * len(head) + "|")
    assert [line for line in section.splitlines() if line.startswith("|")] == allowed, "\n".join(allowed)


def test_only_the_service_writes_what_the_service_owns(rights: Mapping[tuple[str, str], set[str]]) -> None:
    writable = {key for (key, login), effects in rights.items() if login in OUTSIDE and effects & {*"wd"}}
    assert writable == {f"`{key}`" for key in TO_WRITE} | {f"channel `{channel}`" for channel in KNOWN}
