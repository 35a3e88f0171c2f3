"""The format of an installation's folder, stored in `<home>/format`; another format is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from redis import Redis, RedisError

from models.errors import WrongHome

HOME_FORMAT = 2
"""Raised whenever the folder changes in a way that an older program cannot use; old folders then need a migration."""


def check_home(home: Path) -> None:
    """Raise WrongHome if a newer program wrote the folder.

    A missing folder is not created; a folder of an earlier format, as one without a mark, is upgraded when it is used.
    """
    if not home.is_dir():
        return
    number = home_format(home)
    if number > HOME_FORMAT:
        raise WrongHome(
            f"the folder {home} has format {number}, but the newest that this program knows is {HOME_FORMAT}: start the "
            "newer program that wrote it, or set CHORALE_HOME to another folder"
        )
    if number < HOME_FORMAT:
        # A read-only folder is used as it is.
        with suppress(OSError):
            mark_home(home, HOME_FORMAT)


def home_format(home: Path) -> int:
    """The folder's format; raises WrongHome if the mark is not a number."""
    try:
        return int(_mark_of(home).read_text())
    except FileNotFoundError:
        return 1
    except (OSError, ValueError) as error:
        raise WrongHome(
            f"{_mark_of(home)} contains no format: {error}; restore the folder from a backup"
        ) from None


def _mark_of(home: Path) -> Path:
    return home / "format"


def mark_home(home: Path, number: int) -> None:
    """Write the folder's format atomically, since workers may read it at the same time."""
    new = home / f"format.{os.getpid()}"
    new.write_text(f"{number}\n")
    new.replace(_mark_of(home))


def write_private(file: Path, text: str) -> None:
    """Write a file for this user alone, whole or not at all."""
    draft = file.with_suffix(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
    draft.replace(file)


FILE = "up.json"
_OF_ONE_TERMINAL = ("CHORALE_HOME", "CHORALE_LOG_FORMAT", "CHORALE_LOG_LEVEL")


@contextmanager
def shared(home: Path, environ: Mapping[str, str], names: frozenset[str]) -> Iterator[None]:
    """While the block runs, other processes find these variables of `environ` (`shared_environment`)."""
    file = home / FILE
    given = sorted(name for name in names - {*_OF_ONE_TERMINAL} if environ.get(name))
    variables = {name: environ[name] for name in given}
    content = json.dumps(
        {"pid": os.getpid(), "began": psutil.Process().create_time(), "environment": variables}
    )
    write_private(file, content)  # it may have passwords
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def shared_environment(home: Path) -> dict[str, str]:
    """The variables of the `chorale up` that runs on this home; none if none runs."""
    try:
        content = json.loads((home / FILE).read_text(encoding="utf-8"))
        if psutil.Process(int(content["pid"])).create_time() != content["began"]:
            return {}
        return {str(name): str(value) for name, value in content["environment"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, psutil.Error):
        return {}


ANSWER_LIMIT_S = 1.0


@dataclass(frozen=True, slots=True)
class RunningRedis:
    """The content of `redis.json`."""

    url: str
    pid: int
    started: str
    """ISO 8601."""


def find_redis_url(home: Path) -> str | None:
    """The address of the server that `chorale up` runs for this home; None if none answers."""
    running = read_running(home)
    return running.url if running is not None and server_pid(running) else None


def read_running(home: Path) -> RunningRedis | None:
    try:
        content = json.loads((home / "redis.json").read_text())
        return RunningRedis(str(content["url"]), int(content["pid"]), str(content["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def server_pid(running: RunningRedis) -> int | None:
    """The process id of the server at this address; None if none answers, or one that `chorale up` did not start.

    It is the announced process, whose number may have been reused by another program, or a child of it (cli/local/child_wrapper.py).
    """
    if not psutil.pid_exists(running.pid):
        return None
    try:
        with Redis.from_url(
            running.url, socket_timeout=ANSWER_LIMIT_S, socket_connect_timeout=ANSWER_LIMIT_S
        ) as client:
            pid = int(client.info("server")["process_id"])
        return pid if running.pid in (pid, psutil.Process(pid).ppid()) else None
    except (RedisError, ValueError, KeyError, psutil.Error):
        return None
