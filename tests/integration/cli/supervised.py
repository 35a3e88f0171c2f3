"""A program of its own for the supervisor's tests: `supervised.py MODE`, prints its children's numbers.

Modes: `plain` waits for signals; `terminal` first makes its standard input its controlling terminal; `forks` also has a worker, which
is a fork.
"""

import fcntl
import json
import sys
import tempfile
import termios
import time
from pathlib import Path

import psutil

from cli.local.child_process import Child, JsonLines
from cli.local.redis_server import prepare_redis
from cli.local.supervisor import Patience, Supervisor, stop_on_signals

if __name__ == "__main__":
    if sys.argv[1] == "terminal":
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    _, redis_command = prepare_redis(Path(tempfile.gettempdir()))
    sleeper = (sys.executable, "-c", "import time; time.sleep(600)")
    # Ignores every polite signal, as a hung program does.
    deaf = "import signal, time\nfor number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\ntime.sleep(600)"
    stubborn = (sys.executable, "-c", deaf)
    children = [
        Child("redis", redis_command, level=0, beats=False),
        Child("sleeper", sleeper, beats=False),
        Child("stopped", sleeper, beats=False),
        Child("stubborn", stubborn, beats=False),
    ]
    if sys.argv[1] == "forks":
        away = {"CHORALE_REDIS_URL": "redis://127.0.0.1:1/0"}
        children.append(Child("worker", (sys.executable, "-m", "cli", "worker", "bm25"), away, beats=False))
    supervisor = Supervisor(children, output=JsonLines(sys.stderr), patience=Patience(stop_s=0.3))
    stop_on_signals(supervisor)
    with supervisor:
        supervisor.wait_ready(60)
        # A process stopped before it has become its command could not yet be tied to this one.
        while any(
            "child_wrapper.py" in " ".join(psutil.Process(pid).cmdline())
            for pid in supervisor.pids().values()
        ):
            time.sleep(0.01)
        supervisor.pause("stopped")
        print(json.dumps(supervisor.pids()), flush=True)
        supervisor.wait()
