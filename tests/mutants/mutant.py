"""One mutant, and what its test says of it.  A mutant is made in a copy of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_S = 180


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise that no single changed line breaks: it has a test and no mutant."""

    promise: str
    test: str


@dataclass(frozen=True, slots=True)
class Mutant:
    promise: str
    file: str
    line: str
    """The line of the file; it stands there exactly once."""
    instead: str
    test: str
    """The test that fails when the line is changed."""
    shown_by: str = ""
    """The test that shows the whole promise, if `test` shows only a part of it."""


def run(mutant: Mutant) -> tuple[bool, str]:
    """Returns whether the test failed, and the end of pytest's output."""
    with tempfile.TemporaryDirectory(prefix="chorale-mutant-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache"))
        file = tree / mutant.file
        text = file.read_text(encoding="utf-8")
        if text.count(mutant.line) != 1:
            return False, f"the line stands {text.count(mutant.line)} times in {mutant.file}"
        file.write_text(text.replace(mutant.line, mutant.instead), encoding="utf-8")
        # The installed client is the editable one of the real tree; the copy's own comes first.
        paths = os.pathsep.join([str(tree / "client"), str(tree)])
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutant.test]
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("CHORALE_TEST_EXAMPLES", None)
        try:
            ended = subprocess.run(
                command,
                cwd=tree,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True, "hung"
        last = ended.stdout.strip().splitlines()[-1] if ended.stdout.strip() else ended.stderr[-200:]
        return ended.returncode == 1, last
