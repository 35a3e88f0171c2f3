"""docs/evidence/celery: every case is in the table, and runs without Chorale."""

from __future__ import annotations

import re
import sys

from tests.faults.test_celery_scripts import SCRIPT, SEEN


def test_the_table_has_every_case() -> None:
    page = SCRIPT.with_name("README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == sorted(SEEN)


def test_the_cases_need_celery_alone() -> None:
    code = SCRIPT.read_text(encoding="utf-8")
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", code, re.MULTILINE))
    assert imported - sys.stdlib_module_names <= {"billiard", "celery", "kombu", "redis"}
