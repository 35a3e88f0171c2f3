"""Shared pages in the audit trail, on each kind of database."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json
from redis import Redis
from sqlalchemy import Engine

from models.plan import FusionPlan
from records.audit.drainer import Drainer
from records.audit.queries import Which
from records.judgements import store
from records.judgements.feedback import Event, Feedback, Source
from records.judgements.impressions import impressions
from tests.support.ledger.audit_entries import (
    ACCEPTED_AT_MS,
    make_answer,
    make_entry,
    make_plan,
    make_request,
    put,
)

TEAMS = {"A": ["docs:guide.md"], "B": ["docs:tour.md"]}


def entry(request_id: str, at: int, rival: str | None, stages: list[dict[str, Any]]) -> dict[str, str]:
    request = make_request(request_id=request_id)
    plan = make_plan(request)
    if rival is not None:
        b = FusionPlan.model_validate({**dict(plan), "configuration": rival, "branches": plan.branches})
        plan = plan.model_copy(update={"rival": b})
    answer = make_answer(request, stages=stages)
    return make_entry(request, plan=plan, answer=answer, accepted_at_ms=ACCEPTED_AT_MS + at)


def shared(teams: dict[str, list[str]]) -> list[dict[str, Any]]:
    stage = {"stage": "interleave", "status": "ok", "ms": 0.1, "detail": to_json(teams).decode()}
    return [{"stage": "fuse", "status": "ok", "ms": 0.4}, stage]


def test_shared_pages_come_in_their_order_with_their_teams_and_what_people_said(
    engine: Engine, redis_client: Redis
) -> None:
    put(
        redis_client,
        entry("t.acme.second", 2, "scores", shared(TEAMS)),
        entry("first", 1, "scores", shared({"A": [], "B": []})),
        entry("fused-by-an-older-worker", 3, "scores", []),
        entry("other-rival", 4, "bm25", shared(TEAMS)),
        entry("alone", 5, None, []),
    )
    Drainer(redis_client, engine, keep_texts=True).drain_once(1)
    question = store.questions(engine, "default", ["t.acme.second"])["t.acme.second", 0]
    sources: list[tuple[str, Source]] = [("shop", "user"), ("model", "llm")]
    for key, source in sources:
        event = Event(request_id="t.acme.second", action="grade", document_id="docs:tour.md", grade=3)
        store.put(engine, [Feedback.on(question, event, 1, key, source)])
    first, second = impressions(engine, "rrf", "scores")
    assert (first.request_id, first.teams, first.feedback) == ("first", {}, [])
    assert second.teams == {"docs:guide.md": "A", "docs:tour.md": "B"}
    assert [event.key_id for event in second.feedback] == ["shop"]
    acme = impressions(engine, "rrf", "scores", Which(owner="t.acme."))
    assert [each.request_id for each in acme] == ["t.acme.second"]
    assert impressions(engine, "scores", "rrf") == []
