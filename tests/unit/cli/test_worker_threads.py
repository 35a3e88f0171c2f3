"""A worker's numeric libraries are told their threads before they are loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from config.blas_threads import VARIABLES

PROBE = """
import os, sys
import cli.commands.processes
assert "numpy" not in sys.modules, "loaded before anything was said"
from config.blas_threads import limit_threads
limit_threads()
assert "numpy" not in sys.modules
print(*(os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")))
"""


def test_thread_limits_are_set_before_numpy_is_imported_and_the_environment_overrides_them() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    ended = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=Path(__file__).parents[3],
        env={**environment, "OMP_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.split() == ["3", "1", "1"], ended.stderr
