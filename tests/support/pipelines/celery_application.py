"""A process with a Celery application of a user's: it has Celery and redis, and cannot import anything of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

FOLDER = Path(__file__).parents[3] / "examples" / "celery"

# Without `site`, the installed client is not on the path: it is installed by a .pth file.
_BEGIN = f"import sys; sys.path[:0] = [{str(FOLDER)!r}, {sysconfig.get_paths()['purelib']!r}]\n"
_BEGIN_ELSEWHERE = f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n"
_WITHOUT_OURS = """
import importlib.util
missing = [name for name in ("chorale_client", "tasks", "config") if importlib.util.find_spec(name)]
assert not missing, missing
"""
_LISTEN = """
import json, traceback
from application import app
names = {name: app.signature(f"shop.{name}") for name in ("length", "question", "failed", "waits")}
for line in sys.stdin:
    try:
        exec(json.loads(line), names)
        reply = {"found": names.pop("found", None)}
    except Exception as error:
        reply = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    print(json.dumps(reply), flush=True)
"""
_WORK = """
import json
from application import app
from celery.signals import task_prerun

@app.task(name="shop.length")
def length(text):
    return len(text)

@app.task(name="shop.question")
def question():
    return {"questions": ["Who pays for repairs?"], "timeout_s": 10}

@app.task(name="shop.failed")
def failed(request_id):
    pass

@app.task(name="shop.waits")
def waits():
    return app.send_task("chorale.retrieve", args=["bread"]).get(timeout=5)

@task_prerun.connect
def got(task, args, kwargs, **more):
    name = task.name.partition(".")[2]
    app.backend.client.lpush(f"got:{name}", json.dumps([*args, *kwargs.values()]))

sys.argv = ["celery", "-A", "application", "worker", "-Q", "shop", "-P", "solo", "-l", "WARNING",
            "--without-gossip", "--without-mingle", "--without-heartbeat"]
from celery.__main__ import main
main()
"""


class CeleryApplication:
    """Runs code in a process of a user's application; `worker` is another one, which works on the queue `shop`.

    `python` is the interpreter of another environment, which may have the client.
    """

    def __init__(
        self, environment: Mapping[str, str], *, worker: bool = True, python: Path | None = None
    ) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CHORALE"))
        }
        self._environment = {**inherited, **environment}
        self._has_worker = worker
        self._command = [sys.executable, "-I", "-S", "-c"] if python is None else [str(python), "-I", "-c"]
        self._begin = _BEGIN + _WITHOUT_OURS if python is None else _BEGIN_ELSEWHERE
        self._processes: list[subprocess.Popen[str]] = []

    def _start(self, code: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self._command, self._begin + code],
            cwd="/",
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def __enter__(self) -> Self:
        self._asking = self._start(_LISTEN)
        if self._has_worker:
            self._start(_WORK)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def printed(self, program: str) -> str:
        """Returns what the program prints, in a process of its own."""
        process = self._start(program)
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        return printed

    def run(self, code: str) -> Any:
        """Runs the code in the asking process; returns the value of its variable `found`."""
        assert self._asking.stdin is not None
        assert self._asking.stdout is not None
        self._asking.stdin.write(json.dumps(code) + "\n")
        self._asking.stdin.flush()
        reply = json.loads(self._asking.stdout.readline())
        assert "error" not in reply, reply["traceback"]
        return reply["found"]
