"""Reads requests and their shadows from the audit trail: the same question, answered by two configurations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chorale_client.wire_names import Stage
from sqlalchemy import Engine, select
from sqlalchemy.orm import aliased

from models.batching import in_batches
from models.shadow_ids import SUFFIX, shadow_id
from models.tables.audit import HitRow, QuestionRow, RequestRow
from records.audit.queries import Which

MOST_REQUESTS = 200_000
"""The newest ones under A, of which those with a shadow count."""
ROWS_AT_ONCE = 500
DEPTH = 10
"""First hits that are compared."""
_SEARCH = f"{Stage.SEARCH}."


@dataclass(frozen=True, slots=True)
class ShadowPair:
    """The answers to a request, under A, and to its shadow, under B: the first and the second value of each pair."""

    request_id: str
    namespace: str
    text_hash: str
    statuses: tuple[str, str]
    documents: tuple[Sequence[str], Sequence[str]]
    work_ms: tuple[float, float]


def shadow_pairs(
    engine: Engine, a: str, b: str, which: Which | None = None, *, newest: int = MOST_REQUESTS
) -> list[ShadowPair]:
    """Of the `newest` requests under `a` those that have a shadow under `b`, newest first."""
    request, shadow = RequestRow, aliased(RequestRow)
    conditions = request.configuration == a, *(which or Which()).conditions()
    by_time = request.accepted_at_ms.desc()
    under_a = select(request.request_id, request.accepted_at_ms).where(*conditions).order_by(by_time)
    among = under_a.limit(newest).subquery().c
    # An id may be used again after the first request has expired.
    follows = shadow.accepted_at_ms >= request.accepted_at_ms
    sides = [column for row in (request, shadow) for column in (row.accepted_at_ms, row.status, row.stages)]
    is_one = (request.request_id == among.request_id) & (request.accepted_at_ms == among.accepted_at_ms)
    pairs = (
        select(request.request_id, request.namespace, *sides)
        .where(is_one, shadow.request_id == request.request_id + SUFFIX, follows, shadow.configuration == b)
        .order_by(by_time, shadow.accepted_at_ms.desc())
    )
    hits = select(HitRow.request_id, HitRow.accepted_at_ms, HitRow.document_id)
    hits = hits.where(HitRow.question == 0, HitRow.rank <= DEPTH).order_by(HitRow.rank)
    texts = select(QuestionRow.request_id, QuestionRow.text_hash).where(QuestionRow.position == 0)
    documents: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
    text_hashes: dict[str, str] = {}
    with engine.connect() as connection:
        rows: dict[str, Any] = {}
        for row in connection.execute(pairs):
            rows.setdefault(row[0], row)
        for some in in_batches(rows, ROWS_AT_ONCE):
            of = [*some, *map(shadow_id, some)]
            for id_, at_ms, document in connection.execute(hits.where(HitRow.request_id.in_(of))):
                documents[id_, at_ms][document] = None
            for id_, text_hash in connection.execute(texts.where(QuestionRow.request_id.in_(some))):
                text_hashes[id_] = text_hash
    return [
        ShadowPair(
            request_id=id_,
            namespace=namespace,
            text_hash=text_hashes.get(id_, ""),
            statuses=(status, shadow_status),
            documents=([*documents[id_, at_ms]], [*documents[shadow_id(id_), shadow_at_ms]]),
            work_ms=(work_ms(stages), work_ms(shadow_stages)),
        )
        for id_, namespace, at_ms, status, stages, shadow_at_ms, shadow_status, shadow_stages in rows.values()
    ]


def work_ms(stages: Sequence[Mapping[str, Any]]) -> float:
    """How long a request took without waiting for workers: its slowest branch, and what followed all branches."""
    timed = [stage for stage in stages if "start_ms" in stage]
    branches = [stage["ms"] for stage in timed if stage["stage"].startswith(_SEARCH)]
    after = [stage["ms"] for stage in timed if not stage["stage"].startswith(_SEARCH)]
    return float(max(branches, default=0.0) + sum(after))
