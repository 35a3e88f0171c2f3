"""docs/evidence/celery: every script is in the table, and runs without Chorale."""

from __future__ import annotations

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "evidence" / "celery"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def test_the_table_has_every_script() -> None:
    rows = re.findall(r"^\| \[(\w+\.py)\]", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == [script.name for script in SCRIPTS]


def test_a_script_is_celery_alone() -> None:
    code = "\n".join(script.read_text(encoding="utf-8") for script in SCRIPTS)
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", code, re.MULTILINE))
    assert imported - sys.stdlib_module_names <= {"billiard", "celery", "kombu", "redis"}
