"""An Elasticsearch that a test may kill and pause: the shared server's program on ports and a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx
import psutil

from tests.redis_server import free_port
from tests.services import missing, need

START_LIMIT_S = 120.0
_HOME = "-Des.path.home="


class ElasticsearchServer:
    """Also a context manager, which only launches it: `wait_ready` when it is needed."""

    def __init__(self) -> None:
        self._home, self._java_home, self._user = _program()
        self.folder = Path(tempfile.mkdtemp(prefix="chorale-elasticsearch-"))
        self._log = self.folder / "log"
        self.port, self._transport_port = free_port(), free_port()
        if self._user is not None:  # it refuses to run as root
            shutil.chown(self.folder, self._user)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def launch(self) -> None:
        given = {
            "path.data": self.folder / "data",
            "path.logs": self.folder / "logs",
            "http.port": self.port,
            "transport.port": self._transport_port,
        }
        environment = {
            **os.environ,
            "ES_JAVA_OPTS": "-Xms256m -Xmx256m",
            "ES_JAVA_HOME": self._java_home,
            "HOME": str(self.folder),
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [f"{self._home}/bin/elasticsearch", *(f"-E{name}={value}" for name, value in given.items())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
                extra_groups=None if self._user is None else [],
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        ends = time.monotonic() + START_LIMIT_S
        while True:
            try:
                health = httpx.get(f"{self.url}/_cluster/health?wait_for_status=yellow&timeout=1s", timeout=5)
                if health.status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self._process is not None
            assert self._process.poll() is None, f"the server ended while it started: {self._said()}"
            assert time.monotonic() < ends, f"the server did not start: {self._said()}"
            time.sleep(0.2)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        try:
            self.launch()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:]

    def _signal(self, number: signal.Signals) -> None:
        # The server itself is a child of what was started.
        assert self._process is not None
        os.killpg(self._process.pid, number)


def _program() -> tuple[str, str, str | None]:
    """Its folder, that of its Java, and whom it runs as where that is somebody else."""
    port = urlsplit(need("elasticsearch", "a server of its own is the shared one's program")).port
    for listening in psutil.net_connections("tcp"):
        if listening.status != psutil.CONN_LISTEN or listening.laddr[1:] != (port,) or not listening.pid:
            continue
        process = psutil.Process(listening.pid)
        # The server's parent, its launcher, knows the folder too.
        said = [part for one in (process, process.parent()) if one is not None for part in one.cmdline()]
        homes = [part.removeprefix(_HOME) for part in said if part.startswith(_HOME)]
        if homes:
            user = process.username()
            is_other = user != psutil.Process().username()
            return homes[0], str(Path(process.exe()).parents[1]), user if is_other else None
    missing("the shared Elasticsearch runs elsewhere: these tests pause a server of their own")
    raise AssertionError("missing() does not return")
