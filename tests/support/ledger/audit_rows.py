"""What tests read from the audit tables."""

from __future__ import annotations

from sqlalchemy import Engine, func, select

from models.branch_result import BranchResult
from models.tables.audit import BranchRow, RequestRow


def count(engine: Engine) -> int:
    """Number of requests in the trail."""
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(RequestRow)) or 0


def branch_result_of(row: BranchRow) -> BranchResult:
    """The branch's result, for fusing again."""
    return BranchResult(
        row.branch,
        row.status,
        row.reason,
        row.detail,
        row.rankings,
        ms=row.ms or 0.0,
        generation=row.generation,
        attempt=row.attempt or 1,
    )
