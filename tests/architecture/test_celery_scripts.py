"""docs/evidence/celery: every script is in the table, and runs without Chorale."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "evidence" / "celery"
SCRIPTS = sorted(FOLDER.glob("*.py"))
OUTSIDE = {"billiard", "celery", "kombu", "redis"}


def test_the_table_has_every_script() -> None:
    rows = re.findall(r"^\| \[(\w+\.py)\]", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == [script.name for script in SCRIPTS]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_is_celery_alone(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
        )
    }
    assert imported - set(sys.stdlib_module_names) <= OUTSIDE
