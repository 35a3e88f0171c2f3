"""Writes docs/evidence/guarantees-matrix.md from the promises: `python -m tests.mutants.matrix`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.mutants import SECTIONS
from tests.mutants.mutant import ROOT, Mutant, Promise

PAGE = ROOT / "docs" / "evidence" / "guarantees-matrix.md"

_HEAD = """# Every promise, its test and its mutant

`python -m tests.mutants.matrix` writes this page from `tests/mutants/of_*.py`; a test fails while they differ.  A mutant
breaks the promise by one changed line in the file named here, and its test fails then (`make mutants`).  The promises in
short, and what is not promised, are in [guarantees.md](guarantees.md).
"""


def matrix_page() -> str:
    """Returns the whole page as Markdown."""
    return _HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    for title, promises in SECTIONS.items():
        yield f"\n## {title}\n\n| promise | test | mutant in |\n|---|---|---|\n"
        yield from map(_row, promises)


def _row(promise: Promise | Mutant) -> str:
    test = promise.test
    broken = "–"
    if isinstance(promise, Mutant):
        test = promise.shown_by or test
        broken = f"`{promise.file}`"
    return f"| {promise.promise} | `{test.rpartition('::')[2]}` | {broken} |\n"


if __name__ == "__main__":
    PAGE.write_text(matrix_page(), encoding="utf-8")
