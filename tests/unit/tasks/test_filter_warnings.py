"""Whether an answer without hits says that no document meets its filters."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client.wire_names import Stage, StageStatus

from fusion.branch_results import BranchAnswers
from models.branch_result import StageNote
from models.declarations.extensions import BranchKind
from tasks.branches.hyde import HYDE
from tasks.branches.searches import KINDS
from tasks.request.composing.filter_warnings import filter_warnings
from tests.unit.fusion.builders import answered, branch, plan, request

OF_PACKAGES: dict[str, BranchKind] = {
    "near": BranchKind(lambda part: [], needs=frozenset({"questions", "vectors"})),
    "newest": BranchKind(lambda part: [], always_finds=lambda options: True),
}
SAID = ("filter 'year': no document that may be found meets {\"year\":2026}",)


def warnings(kind: str, options: dict[str, Any], *stages: StageNote) -> tuple[str, ...]:
    """Of a request whose only branch has found nothing."""
    planned = plan([branch(kind).model_copy(update={"options": options})])
    answers = BranchAnswers(request(filters={"year": 2026}), planned, {kind: answered(kind, stages=stages)})
    return filter_warnings(answers, {**KINDS, "hyde": HYDE, **OF_PACKAGES}, [], {})


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("vector", {}, SAID),
        ("document", {}, SAID),
        ("hybrid", {}, SAID),
        ("hybrid", {"alpha": 0.0}, ()),
        ("newest", {}, SAID),
        ("near", {}, ()),
        ("bm25", {}, ()),
        ("hyde", {}, ()),
        ("graph", {"cypher": "MATCH (n) RETURN n.id AS id"}, ()),
        ("http", {}, ()),
    ],
)
def test_only_a_branch_that_always_finds_something_tells_that_no_document_meets_the_filters(
    kind: str, options: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert warnings(kind, options) == expected


@pytest.mark.parametrize("status", [StageStatus.SKIPPED, StageStatus.PARTIAL])
def test_a_branch_that_left_questions_out_tells_nothing_of_the_filters(status: StageStatus) -> None:
    assert warnings("vector", {}, StageNote(Stage.EMBED)) == SAID
    assert warnings("vector", {}, StageNote(Stage.EXPAND, status)) == ()
