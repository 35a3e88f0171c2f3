"""What a bulk worker makes of lines that it cannot read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobs.job import Line, Segment
from tasks.jobs.answering import answer_lines


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"questions": [{"text": "tea"}], "unheard_of": 1}, "unheard_of"),
        ({"questions": [{"text": "tea"}], "top_k": "many"}, "top_k"),
        ({"top_k": 3}, "questions"),
    ],
)
def test_a_line_of_another_version_fails_alone_and_does_not_end_the_worker(
    fields: dict[str, Any], why: str
) -> None:
    lines = [Line(1, "a", fields), Line(2, "b", None, "text: empty")]
    segment = Segment("job", 0, 1, 0, 1, lines, [None, None], [0], None, "docs", 0)
    no_branches = SimpleNamespace(kinds=SimpleNamespace(branches={}), branches=())
    resources = cast("Any", SimpleNamespace(pipeline=no_branches))
    results, passing = answer_lines(resources, segment, segment.left)
    assert (results[0]["status"], passing) == ("failed", set())
    assert why in results[0]["error"]
