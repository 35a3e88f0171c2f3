"""The audit rows suffice to fuse again without any store."""

from __future__ import annotations

import pytest
import redis
from chorale_client.request import Request
from sqlalchemy import Engine

from audit.drainer import Drainer
from audit.queries import show
from models.audit_tables import RequestRow
from models.plan import Plan
from tests.support.ledger.audit_entries import (
    make_answer,
    make_entry,
    make_envelope,
    make_plan,
    make_ranking,
    put,
)
from tests.unit.fusion.builders import fuse_question

FOUND = {
    "bm25": (("exact", "both", "far"), ("only-lexical",)),
    "vector": (("both", "near", "exact"), ("near", "only-dense")),
    "hyde": (("near", "both"), ("only-dense",)),
}


def fused(plan: Plan, request: Request, kept: RequestRow) -> list[list[tuple[str, float]]]:
    envelopes = {branch.branch: branch.envelope() for branch in kept.branches}
    return [
        [(hit.document_id, hit.score) for hit in fuse_question(plan, envelopes, position, request).hits]
        for position in range(len(plan.asked))
    ]


@pytest.mark.parametrize("keep_texts", [True, False])
def test_the_fused_order_and_scores_are_rebuilt_from_rows_alone(
    redis_client: redis.Redis, engine: Engine, keep_texts: bool
) -> None:
    request = Request(request_id="one", questions=["first", "second"], exclude_ids=["far"], top_k=4)
    plan = make_plan(request)
    envelopes = {
        name: make_envelope(name, *(make_ranking(*documents) for documents in FOUND[name])) for name in FOUND
    }
    questions = []
    for position in range(2):
        hits = fuse_question(plan, envelopes, position, request).hits
        wire = [
            {"rank": rank, "document_id": hit.document_id, "score": hit.score}
            for rank, hit in enumerate(hits, start=1)
        ]
        questions.append({"status": "complete", "hits": wire})
    answer = make_answer(request, questions=questions)
    put(redis_client, make_entry(request, plan=plan, answer=answer, envelopes=tuple(envelopes.values())))
    Drainer(redis_client, engine, keep_texts=keep_texts).drain_once(1)

    kept = show(engine, "one")
    assert kept is not None
    texts = [{"text": question.text or ""} for question in kept.questions]
    again = fused(
        Plan.model_validate(kept.plan), Request.model_validate({**kept.options, "questions": texts}), kept
    )

    assert again == [[(hit.document_id, hit.score) for hit in question.hits] for question in kept.questions]
    # Found by all three branches at ranks 2, 1 and 2: first by RRF with k 60.
    document, score = again[0][0]
    assert document == "both"
    assert score == pytest.approx(0.3 / 62 + 0.4 / 61 + 0.3 / 62)
    assert {document for document, _ in again[0]} == {"both", "exact", "near"}
