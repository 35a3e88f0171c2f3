"""Worker processes forked from one process that has imported the product already.

A fresh interpreter needs 2 to 3 s of CPU for the imports of a worker; a fork needs none of them.  A forked process
is as real as a fresh one: it has its own pid, session, environment and memory, and it can be killed and paused.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cli.local.child_wrapper import end_with
from config.blas_threads import limit_threads

IMPORTED = (
    "tasks.worker.worker_process",
    "tasks.worker.sweeper_process",
    "cli.commands.processes",
    "alembic.command",
    "celery.app.control",
    "celery.apps.worker",
    "celery.backends.redis",
    "celery.concurrency.solo",
    "celery.concurrency.thread",
    "celery.fixups.django",
    "celery.worker.autoscale",
    "celery.worker.consumer",
    "celery.worker.strategy",
    "kombu.transport.memory",
    "kombu.transport.redis",
    "onnxruntime",
    "tantivy",
    "tokenizers",
    "safetensors.numpy",
    "sqlalchemy.dialects.sqlite",
    "records.audit.drainer",
    "inference.onnx.graph",
    "inference.embedders",
    "inference.onnx.models",
    "inference.rerankers",
    "search.documents.store",
    "search.engines.embedded.store",
    "tests.support.pipelines.warm_process",
)
"""What workers and sweepers import, also what they import late."""

STDOUT_AND_STDERR = (1, 2)

_HERE = "from tests.support.pipelines.fork_server import serve; serve({fd}, {imported})"


class ForkedProcess:
    """The part of `subprocess.Popen` that tests use, for a child of the fork server."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.exit_code_of(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(f"forked process {self.pid}", timeout or 0)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


Process = subprocess.Popen[bytes] | ForkedProcess


class ForkServer:
    """Starts the server process, with the code below `root`, at the first fork; the server ends with the process that started it."""

    def __init__(self, root: Path, imported: Sequence[str] = IMPORTED) -> None:
        self._root = root
        self._imported = imported
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._wait: Callable[[], object] = lambda: None

    def fork(
        self, code: str, environment: Mapping[str, str], fds: Sequence[int] = STDOUT_AND_STDERR
    ) -> ForkedProcess:
        """A process in a session of its own that runs `code`.  `fds` become its stdout, its stderr and, if there are three, its
        stdin; by default it has the stdout and stderr that the caller has now."""
        request = {"code": code, "environment": dict(environment)}
        return ForkedProcess(self, int(self._call(request, fds=fds)))

    def exit_code_of(self, pid: int) -> int | None:
        """As `Popen.returncode`: None while the process runs."""
        code = self._call({"pid": pid})
        return None if code is None else int(code)

    def _call(self, request: dict[str, Any], fds: Sequence[int] = ()) -> Any:
        message = json.dumps(request).encode()
        with self._lock:
            try:
                server = self._connected()
                head = len(message).to_bytes(4, "big")
                if fds:
                    server.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
                else:
                    server.sendall(head)
                server.sendall(message)
                return json.loads(_received(server, int.from_bytes(_received(server, 4), "big")))
            except BaseException:  # a test's time limit too: a later caller would read this one's answer
                self.close()
                raise

    def _connected(self) -> socket.socket:
        if self._socket is None:
            mine, theirs = socket.socketpair()
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-c", _HERE.format(fd=theirs.fileno(), imported=self._imported)],
                    cwd=self._root,
                    env={
                        **os.environ,
                        "PYTHONPATH": os.pathsep.join([str(self._root / "client"), str(self._root)]),
                    },
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._socket, self._wait = mine, process.wait
            atexit.register(self.close)
        return self._socket

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._wait()
            self._socket = None


def serve(fd: int, imported: Sequence[str]) -> None:
    """The server's whole life: fork and report exit codes until the socket is closed, then kill the children that still run.

    In a child the call returns.
    """
    limit_threads()
    for name in imported:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    client = socket.socket(fileno=fd)
    running: set[int] = set()
    exit_codes: dict[int, int] = {}
    """Of processes that have ended: two threads of the caller may ask for the same one."""
    try:
        while head := client.recvmsg(4, socket.CMSG_SPACE(12)):
            if not head[0]:
                return
            request = json.loads(_received(client, int.from_bytes(head[0], "big")))
            if "pid" in request:
                pid = request["pid"]
                answer: int | None = exit_codes.get(pid)
                if answer is None and (answer := _ended(pid)) is not None:
                    exit_codes[pid] = answer
                    running.discard(pid)
            else:
                fds = _fds(head[1])
                answer = os.fork()
                if not answer:
                    running.clear()
                    client.close()
                    _become(request, fds)
                    return
                running.add(answer)
                exit_codes.pop(answer, None)
                for fd in fds:
                    os.close(fd)
            reply = json.dumps(answer).encode()
            client.sendall(len(reply).to_bytes(4, "big") + reply)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)


def _become(request: dict[str, Any], fds: Sequence[int]) -> None:
    if sys.platform == "linux":  # a server that is killed by a signal cannot kill its children
        end_with(os.getppid())
    os.setsid()
    for fd, number in zip(fds, (*STDOUT_AND_STDERR, 0), strict=False):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # the environment may name another folder
    main: Any = sys.modules["__main__"]
    exec(compile(request["code"], "<forked>", "exec"), vars(main))


def _ended(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _fds(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for _, _, data in ancillary:
        fds.frombytes(data)
    return list(fds)


def _received(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        part = connection.recv(length - len(received))
        if not part:
            raise ConnectionError("the fork server is gone")
        received += part
    return received
