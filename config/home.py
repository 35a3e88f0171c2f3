"""The format of an installation's folder, stored in `<home>/format`; another format is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from redis import Redis, RedisError

from models.errors import WrongDeclaration, WrongHome

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
ANSWER_LIMIT_S = 1.0


@contextmanager
def shared(home: Path, environ: Mapping[str, str], names: frozenset[str], redis_url: str) -> Iterator[None]:
    """While the block runs, other processes find these variables of `environ` (`shared_environment`) and the Redis."""
    file = home / FILE
    exported = sorted(name for name in names - {*_OF_ONE_TERMINAL} if environ.get(name))
    content = {
        "pid": os.getpid(),
        "began": psutil.Process().create_time(),
        "redis_url": redis_url,
        "environment": {name: environ[name] for name in exported},
    }
    write_private(file, json.dumps(content))  # the content has passwords
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def shared_environment(home: Path) -> dict[str, str]:
    """The variables of the `chorale up` that runs on this home; none if none runs."""
    return {str(name): str(value) for name, value in _shared(home).get("environment", {}).items()}


def find_redis_url(home: Path) -> str | None:
    """The address of the Redis of the `chorale up` that runs on this home; None if none runs, or its Redis does not answer."""
    url: str | None = _shared(home).get("redis_url")
    if url is None:
        return None
    try:
        with Redis.from_url(
            url, socket_timeout=ANSWER_LIMIT_S, socket_connect_timeout=ANSWER_LIMIT_S
        ) as client:
            client.ping()
    except (RedisError, ValueError):
        return None
    return url


def known_redis_url(redis_url: str | None, home: Path) -> str:
    """The address that the settings have, or else the one of `find_redis_url`.  Raises WrongDeclaration if there is neither."""
    known = redis_url or find_redis_url(home)
    if known is None:
        raise WrongDeclaration(
            "no Redis is known: start `chorale up` in another terminal, or set CHORALE_REDIS_URL"
        )
    return known


def _shared(home: Path) -> dict[str, Any]:
    """What the `chorale up` that runs on this home shares; empty if none runs."""
    try:
        content = json.loads((home / FILE).read_text(encoding="utf-8"))
        runs = psutil.Process(int(content["pid"])).create_time() == content["began"]
    except (OSError, ValueError, LookupError, TypeError, psutil.Error):
        return {}
    return content if runs else {}
