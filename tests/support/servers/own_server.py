"""A server's program with its own ports and folder, which a test may kill and pause."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

import httpx

QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Options of a Java that runs for seconds: it compiles and checks less."""


class OwnServer(ABC):
    """A context manager that launches the server, and removes its process and folder."""

    start_limit_s: ClassVar[float]
    ready: str
    """The address that returns 200 once the server is ready."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"chorale-{name}-"))
        self._log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def launch(self) -> None: ...

    def _run(self, command: list[str], **options: Any) -> None:
        with self._log.open("ab") as log:
            # The process gets its own session, because the server may be a child of it.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **options
            )

    def wait_ready(self) -> None:
        ends = time.monotonic() + self.start_limit_s
        while True:
            try:
                if httpx.get(self.ready, verify=False, timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self._process is not None
            assert self._process.poll() is None, f"the server ended while it started: {self._said()}"
            assert time.monotonic() < ends, f"the server did not start: {self._said()}"
            time.sleep(0.1)

    def pause(self) -> None:
        """Returns once all threads have stopped: a busy machine stops them late, and one would still answer."""
        self._signal(signal.SIGSTOP)
        assert self._process is not None
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

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

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:]

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)


def free_ports(count: int) -> list[int]:
    """Returns free ports below the range of outgoing connections, which could take a port before a server binds it."""
    chance, ports = random.SystemRandom(), list[int]()
    with ExitStack() as reservations:
        while len(ports) < count:
            port = chance.randrange(20_000, 32_000)
            with suppress(OSError):
                reservations.enter_context(socket.create_server(("0.0.0.0", port)))
                ports.append(port)
    return ports
