"""`python -m tests.support.pipelines.forked_children MODULE [ARGUMENT...]` runs a module of the product whose supervisor forks its children.

The children are forks of one process that has imported the product already (see `fork_server`), instead of one interpreter each.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
from pathlib import Path
from typing import Any

from cli.local import child_process, supervisor
from tests.support.pipelines.pipeline import FORK_SERVER

_RUN = """
import os, runpy, sys
os.chdir({folder!r})
sys.argv = {argv}
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class ForkedChild(child_process.ChildProcess):
    def __init__(self, child: child_process.Child, output: child_process.Output) -> None:
        program, option, *argv = child.argv
        if (program, option) != (sys.executable, "-m") or argv[0] == "celery":
            super().__init__(child, output)
            return
        read, write = os.pipe()
        code = _RUN.format(folder=str(Path.cwd()), argv=argv)
        process: Any = FORK_SERVER.fork(code, {**os.environ, **child.env}, (write, write))
        os.close(write)
        self._process, self.pid = process, process.pid
        self._reader = threading.Thread(
            target=child_process._pass_on, args=(child.name, os.fdopen(read, "rb"), output), daemon=True
        )
        self._reader.start()


if __name__ == "__main__":
    vars(supervisor)["ChildProcess"] = ForkedChild
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
