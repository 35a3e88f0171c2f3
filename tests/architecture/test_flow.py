"""docs/reference/flow.md has the steps of its drawing, and links to functions that exist.  README's picture is what its script draws."""

from __future__ import annotations

import re
from pathlib import Path

from docs.drawings import chord

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "flow.md"
LINKS = re.findall(r"\]\(([^)#]+\.py)#(\w+)\)", PAGE.read_text(encoding="utf-8"))


def test_the_page_has_every_step_of_the_drawing() -> None:
    steps = re.findall(r"^\| (\d) \*\*(\w+)\*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    drawing = (ROOT / "docs" / "drawings" / "flow.svg").read_text(encoding="utf-8")
    assert steps == re.findall(r">(\d) (\w+)</text>", drawing)
    assert len(steps) == 8


def test_every_step_links_to_functions_that_exist() -> None:
    for file, function in LINKS:
        code = (PAGE.parent / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *def {function}\(", code, re.MULTILINE), (file, function)
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d ", line)]
    assert [row for row in rows if ".py#" not in row] == []


def test_the_moving_picture_is_current() -> None:
    picture = (ROOT / "docs" / "drawings" / "chord.svg").read_text(encoding="utf-8")
    assert picture == chord.drawing(), "run `python -m docs.drawings.chord`"
