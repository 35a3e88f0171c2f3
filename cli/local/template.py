"""The first run of each worker and of the sweeper is a fork of one process, the template, that has imported what they share (Linux only).

The template forks when Redis answers, writes the process ids, and ends; then the kernel makes the supervisor the parent of the
forks.  A child that starts again is a new process: a template that stayed would run the files of an earlier version.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from cli.local.child_process import WRAPPER, Child, Forked
from cli.local.child_wrapper import end_with

PR_SET_CHILD_SUBREAPER = 36  # <sys/prctl.h>

IMPORTED = (
    "cli.commands.processes",
    "tasks.worker.worker_process",
    "celery.apps.worker",
    "celery.worker.autoscale",
    "search.documents.store",
    "search.engines.embedded.store",
    "sqlalchemy.dialects.sqlite",
    "inference.onnx.models",
)
"""What at least two processes import.  None of these modules starts a thread, which a fork would lack."""

_CLI = (sys.executable, "-m", "cli")


class Template:
    """Only the supervisor's own thread may make it (see child_wrapper.py).

    `forked` has the forks by name, without the children that run no command of ours, and without those that a template that failed
    has not forked.
    """

    def __init__(self, children: Sequence[Child], *, limit_s: float) -> None:
        self.forked: dict[str, Forked] = {}
        self._process: subprocess.Popen[bytes] | None = None
        ours = [child for child in children if child.level and child.argv[:3] == _CLI]
        # Interpreter and libraries read some variables once, so that a fork cannot have others.
        ours = [child for child in ours if child.env == ours[0].env]
        if sys.platform != "linux" or not ours or _adopt_orphans(True):
            return
        pipes = {child.name: os.pipe() for child in ours}
        self._outputs = {name: os.fdopen(read, "rb") for name, (read, _) in pipes.items()}
        self._give_up_s = time.monotonic() + limit_s
        parent, roles = str(os.getpid()), [(child.name, pipes[child.name][1], child.argv) for child in ours]
        program = (sys.executable, "-m", __name__, parent, json.dumps(roles))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WRAPPER), "exec", parent, *program],
            env={**os.environ, **ours[0].env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[write for _, write in pipes.values()],
            start_new_session=True,
        )
        for _, write in pipes.values():
            os.close(write)

    def has_ended(self) -> bool:
        """Let the template fork as soon as it can; returns whether `forked` is complete."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            if self._process.poll() is None and time.monotonic() < self._give_up_s:
                return False
            self._collect_forks()
        return True

    def close(self) -> None:
        """Kill the template, and the forks that are still in `forked`."""
        if self._process is not None:
            self._collect_forks()
        for fork in self.forked.values():
            os.killpg(fork.pid, signal.SIGKILL)
            fork.wait()
            fork.stdout.close()

    def _collect_forks(self) -> None:
        assert self._process is not None
        self._process.kill()
        with self._process as process:
            assert process.stdout is not None
            printed = process.stdout.read().decode()
        self._process = None
        _adopt_orphans(False)
        for line in printed.splitlines():
            pid, name = line.split(" ", 1)
            self.forked[name] = Forked(int(pid), self._outputs.pop(name))
        for output in self._outputs.values():
            output.close()


def _adopt_orphans(on: bool) -> int:
    """0, or -1 where the system refuses."""
    status: int = ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)
    return status


def _run(supervisor: int, roles: Sequence[tuple[str, int, list[str]]]) -> None:
    """The whole life of the template and of its forks, which leave this function as themselves."""
    gc.disable()
    from cli.app import run

    for module in IMPORTED:
        import_module(module)
    gc.freeze()
    sys.stdin.buffer.read()  # until the supervisor closes it
    template = os.getpid()
    for name, output, argv in roles:
        if not os.fork():
            gc.enable()
            os.setsid()
            os.write(1, f"{os.getpid()} {name}\n".encode())
            for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
                os.dup2(file, number)
            for _, each, _ in roles:
                os.close(each)
            while os.getppid() == template:
                time.sleep(0.001)
            end_with(supervisor)
            _show_in_ps(argv)
            sys.argv[1:] = argv[3:]
            run()
            return


def _show_in_ps(argv: Sequence[str]) -> None:
    """Write over the template's own arguments, which contain these, as setproctitle(3) does: the kernel shows the text up to the
    first zero byte if the last byte is another one."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, see proc(5)
    title = os.fsencode(" ".join(argv))
    if len(title) < end - start:
        ctypes.memmove(start, title.ljust(end - start - 1, b"\0") + b".", end - start)


if __name__ == "__main__":
    _run(int(sys.argv[1]), json.loads(sys.argv[2]))
