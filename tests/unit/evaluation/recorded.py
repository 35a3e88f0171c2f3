"""A recorded request with one question, made of the lists that its branches reported."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from evaluation.recorded.request import RecordedRequest
from models.hits import Ranking
from models.tables.audit import BranchRow, HitRow, QuestionRow, RequestRow
from tasks.wiring.pipeline import load_pipeline
from tests.support.ledger.audit_entries import ACCEPTED_AT_MS, make_plan, make_ranking, make_request

LISTS = {"bm25": ("exact", "both", "far"), "vector": ("both", "near", "exact"), "hyde": ("near", "both")}
"""By RRF with k 60 and weights .3, .4, .3: both, near, exact, far."""
PIPELINE = load_pipeline()


def record(
    lists: Mapping[str, Sequence[str] | Ranking] = LISTS,
    *,
    reported_ms: Mapping[str, float] | None = None,
    answered: Sequence[str] = (),
    planned: Mapping[str, Any] | None = None,
    **options: Any,
) -> RecordedRequest:
    """`answered` are the documents of the recorded answer; `options` those of the request."""
    request = make_request(**options)
    branches = [
        BranchRow(branch=name, status="ok", reason=None, detail="", candidates=_stored(documents))
        for name, documents in lists.items()
    ]
    hits = [
        HitRow(rank=rank, document_id=name, explanation={}) for rank, name in enumerate(answered, start=1)
    ]
    row = RequestRow(
        request_id=request.request_id,
        accepted_at_ms=ACCEPTED_AT_MS,
        ended_by="fusion",
        options=request.model_dump(mode="json", exclude={"questions"}),
        plan=make_plan(request, **(planned or {})).model_dump(mode="json"),
        stages=[
            {"stage": f"search.{name}", "start_ms": 0.0, "ms": ms} for name, ms in (reported_ms or {}).items()
        ],
        branches=branches,
        questions=[QuestionRow(position=0, text=request.questions[0].text, hits=hits)],
    )
    return RecordedRequest.read(row, PIPELINE)


def _stored(documents: Sequence[str] | Ranking) -> bytes:
    ranking = documents if isinstance(documents, Ranking) else make_ranking(*documents)
    return zlib.compress(to_json([ranking.to_wire()]))
