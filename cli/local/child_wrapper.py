"""Runs a command that must not outlive its supervisor: `python -I -S child_wrapper.py MODE PARENT COMMAND...`.

`exec` (Linux): the kernel kills the command when the supervisor ends, however that happens.
`watch` (elsewhere): this process stays, looks after its parent's number, and kills its own process group.

It is run as a file by a bare interpreter, so it imports the standard library alone.
"""

import ctypes
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
TICK_EVERY_S = 0.25


def end_with(parent: int) -> None:
    """Have the kernel kill this process with its parent, whose process id is given.  Exits if the parent has ended.

    To the kernel the parent is the *thread* that started this process: the supervisor starts every child from one
    thread, which lives as long as the supervisor.  The parent of a fork of the template is the supervisor's main thread.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # If the parent ended before the call above, no signal will ever come.
    if os.getppid() != parent:
        sys.exit(1)


def watch_parent(parent: int, command: list[str]) -> int:
    """Run the command as a child in this process's group; kill the whole group once the parent has ended."""
    process = subprocess.Popen(command)
    # The supervisor signals the whole group, so the command gets SIGTERM by itself.
    signal.signal(signal.SIGTERM, lambda *_: None)
    while os.getppid() == parent:
        try:
            return process.wait(TICK_EVERY_S)
        except subprocess.TimeoutExpired:
            continue
    os.killpg(0, signal.SIGKILL)
    return 1


if __name__ == "__main__":
    mode, parent_pid, *to_run = sys.argv[1:]
    if mode == "exec":
        end_with(int(parent_pid))
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execvp(to_run[0], to_run)  # noqa: S606 - no shell is wanted
    code = watch_parent(int(parent_pid), to_run)
    sys.exit(code if code >= 0 else 128 - code)
