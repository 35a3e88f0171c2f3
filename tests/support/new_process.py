"""What a program prints or imports in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def printed(program: str, timeout_s: float = 60, /, **environment: str) -> list[str]:
    """The lines; `environment` is added to that of the tests."""
    call, env = [sys.executable, "-c", program], {**os.environ, **environment}
    done = subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def imported(program: str, names: str, **environment: str) -> list[str]:
    """Which modules of these names are imported when the program has run."""
    report = f"import sys; print('imported', *{set(names.split())!r} & sys.modules.keys())"
    return printed(f"{program}\n{report}", **environment)[-1].split()[1:]
