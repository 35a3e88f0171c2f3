"""What a program prints in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def printed(program: str, **environment: str) -> list[str]:
    """The lines; `environment` is added to that of the tests."""
    call, env = [sys.executable, "-c", program], {**os.environ, **environment}
    done = subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
