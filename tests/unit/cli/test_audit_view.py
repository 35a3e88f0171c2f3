"""The audit trail on a narrow terminal."""

from __future__ import annotations

import zlib

from pydantic_core import to_json
from rich.console import Console

from cli.views.audit import branches_table, lines_table
from models.audit_tables import BranchRow, QuestionRow, RequestRow
from models.hits import Hit, Ranking

QUESTION = "when may a tenant who has paid the rent of three months in advance leave the flat?"


def printed(table: object, width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_request_is_one_line_of_eighty_columns_and_the_question_alone_is_shortened() -> None:
    line = RequestRow(
        request_id="f5334cde-4ddf-40c0-a03e-e38b7d6e3a14",
        accepted_at_ms=1_790_000_000_000,
        status="cancelled",
        took_ms=12_345.6,
        namespace="default",
        questions=[QuestionRow(text=QUESTION)],
    )
    head, row = printed(lines_table([line]), 80)
    assert head.split() == ["id", "accepted", "(UTC)", "namespace", "ms", "question"]
    # The columns and three spaces between them: 8, 19, 9, 9, 6, and 14 are left.
    assert row == "f5334cde   2026-09-21 14:13:20   default     cancelled   12,346   when may a te…"
    assert len(row) <= 80
    assert QUESTION in printed(lines_table([line]), 160)[1]


def test_the_audit_table_distinguishes_candidates_not_kept_from_no_candidates() -> None:
    def branch(name: str, status: str, *rankings: Ranking) -> BranchRow:
        candidates = zlib.compress(to_json([ranking.to_wire() for ranking in rankings])) if rankings else None
        return BranchRow(
            branch=name, status=status, ms=1.5, attempt=1, weight=0.3, detail="", candidates=candidates
        )

    rows = printed(
        branches_table(
            [
                branch("bm25", "ok", Ranking((Hit("a#0", "a", 1.0),))),
                branch("vector", "ok"),
                branch("hyde", "empty", Ranking()),
            ]
        ),
        120,
    )[1:]
    assert [" ".join(row.split()) for row in rows] == [
        "bm25 ok 1.5 1 0.3 1",
        "vector ok 1.5 not kept 0.3 1",
        "hyde empty 1.5 0 0.3 1",
    ]
