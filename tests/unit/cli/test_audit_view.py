"""The audit trail on a terminal."""

from __future__ import annotations

import zlib

from pydantic_core import to_json

from cli.views.audit import branches_table
from models.audit_tables import BranchRow
from models.hits import Hit, Ranking


def test_the_audit_table_distinguishes_candidates_not_kept_from_no_candidates() -> None:
    def branch(name: str, status: str, *rankings: Ranking) -> BranchRow:
        candidates = zlib.compress(to_json([ranking.to_wire() for ranking in rankings])) if rankings else None
        return BranchRow(
            branch=name, status=status, ms=1.5, attempt=1, weight=0.3, detail="", candidates=candidates
        )

    table = branches_table(
        [
            branch("bm25", "ok", Ranking((Hit("a#0", "a", 1.0),))),
            branch("vector", "ok"),
            branch("hyde", "empty", Ranking()),
        ]
    )
    assert list(table.columns[3].cells) == ["1", "not kept", "0"]
