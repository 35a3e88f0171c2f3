"""A pytest plugin: whatever a test run starts ends with it, also when the run is killed.

Every pytest process names itself in the environment variable OWNER, which the processes that its tests start inherit.  A
reaper beside the run kills each process whose owner is gone, and removes the run's temporary folder at the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

OWNER = "TEST_RUN_OWNER"
"""Without the prefix `CHORALE_`, since tests start whole installations without the variables of this one."""
EVERY_S = 3.0
EXIT_LIMIT_S = 30.0

_REAPER = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a pytest-xdist worker belongs to the run that started it
        # Developers want the tmp_path of failed tests after the run.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        folder = os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="chorale-run-")
        Path(folder).chmod(0o1777)  # as /tmp: tests also run programs as another user
        config.stash[_REAPER] = subprocess.Popen(
            [sys.executable, __file__, str(os.getpid()), folder],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the terminal ends the run alone
        )
    os.environ[OWNER] = str(os.getpid())


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if _REAPER in config.stash:
        config.stash[_REAPER].terminate()
        config.stash[_REAPER].wait(EXIT_LIMIT_S)


def _reap(run: int, folder: str) -> None:
    """Kills orphans until the process `run` is over, and then all that is left of it."""
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    while not is_over.wait(EVERY_S) and is_alive(run):
        _kill(find_orphans())
    until = time.monotonic() + EXIT_LIMIT_S / 2
    while (orphans := find_orphans(ended=run, folder=folder)) and time.monotonic() < until:
        _kill(orphans)
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)


def find_orphans(*, ended: int | None = None, folder: str | None = None) -> list[psutil.Process]:
    """Returns the processes whose owner is gone, and those of the run that has `ended`: it owns them, or they work in its folder."""
    orphans = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError, ValueError):
            owner = _owner_of(process)
            # A Redis that has written its title over its whole environment names no owner.
            is_of_run = owner == ended if owner else folder is not None and process.cwd().startswith(folder)
            if process.pid != os.getpid() and (is_of_run or (owner and not is_alive(owner))):
                orphans.append(process)
    return orphans


def _owner_of(process: psutil.Process) -> int:
    """The process that started it; 0: it belongs to no run."""
    variables = Path(f"/proc/{process.pid}/environ")
    if not variables.exists():
        return int(process.environ().get(OWNER, 0))
    # psutil stops at the first empty string, and Redis may write its title over the first variables alone.
    prefix = f"{OWNER}=".encode()
    values = (each for each in variables.read_bytes().split(b"\0") if each.startswith(prefix))
    return int(next(values, prefix + b"0").removeprefix(prefix))


def is_alive(pid: int) -> bool:
    """Returns whether the process runs.  A zombie does not: its parent has only not asked for its exit code yet."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()


if __name__ == "__main__":
    _reap(int(sys.argv[1]), sys.argv[2])
