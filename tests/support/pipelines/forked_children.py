"""Modules that run in forks of one process that has imported the product already (see `fork_server`): `start_module` and `run_module`
in this test, `forked_command` for a shell."""

from __future__ import annotations

import json
import os
import shlex
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tests.support.pipelines.fork_server import ForkedProcess
from tests.support.pipelines.pipeline import FORK_SERVER, ROOT

_COMMAND = Path(__file__).with_name("forked_command.py")
_RUN = """
import os, runpy, sys
os.chdir({folder!r})
sys.argv = {argv}
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def start_module(
    *argv: str, environment: Mapping[str, str], out: int, err: int, preload: str = ""
) -> ForkedProcess:
    """Starts `python -m MODULE ARGUMENT...` in this environment, in the folder of the tree, with these files as stdout and stderr.

    It runs the code `preload` first.
    """
    code = preload + _RUN.format(folder=str(ROOT), argv=list(argv))
    return FORK_SERVER.fork(code, environment, (out, err))


@contextmanager
def running_module(
    *argv: str, environment: Mapping[str, str], preload: str = ""
) -> Iterator[tuple[ForkedProcess, TextIO]]:
    """The process and its output, until it is killed with the block."""
    read, write = os.pipe()
    process = start_module(*argv, environment=environment, out=write, err=write, preload=preload)
    os.close(write)
    with os.fdopen(read) as output:
        try:
            yield process, output
        finally:
            process.kill()


def run_module(
    *argv: str, environment: Mapping[str, str], timeout_s: float, preload: str = ""
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start_module(
            *argv, environment=environment, out=out.fileno(), err=err.fileno(), preload=preload
        )
        try:
            returncode = process.wait(timeout_s)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(argv, returncode, out.read(), err.read())


class _Call(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        length, fds, *_ = socket.recv_fds(self.request, 4, 3)
        call = json.loads(self.rfile.read(int.from_bytes(length, "big")))
        process = FORK_SERVER.fork(_RUN.format(**call), call["environment"], fds)
        for fd in fds:
            os.close(fd)
        self.wfile.write(str(process.wait()).encode())


@contextmanager
def forked_command(*argv: str) -> Iterator[str]:
    """A command line that runs `python -m MODULE ARGUMENT...`, with more arguments behind it, as a fork; while the block runs."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socketserver.ThreadingUnixStreamServer(f"{folder}/calls", _Call) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield shlex.join([sys.executable, "-I", "-S", str(_COMMAND), f"{folder}/calls", *argv])
        finally:
            server.shutdown()
            thread.join()
