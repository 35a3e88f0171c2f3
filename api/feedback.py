"""Feedback: what a user or a judge says of the hits of a search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

from anyio import to_thread
from chorale_client.errors import InvalidRequest
from fastapi import APIRouter, Depends
from pydantic import BaseModel, BeforeValidator, Field

from access.grant import Grant
from api.audit import visible_row
from api.caller import Caller, KeyFirst
from api.problems import Problem
from api.services import Services, ServicesDep
from judgements import store
from judgements.feedback import Event, Feedback, RecordedQuestion, Source, recorded_ranks
from models.audit_tables import RequestRow

router = APIRouter(prefix="/v1/feedback", tags=["feedback"], route_class=KeyFirst)

MOST_EVENTS = 100
_NAMED = 10
"""Hits that an error names."""


def _as_list(body: Any) -> Any:
    return body if isinstance(body, list) else [body]


Events = Annotated[
    Annotated[list[Event], Field(min_length=1, max_length=MOST_EVENTS)],
    BeforeValidator(
        _as_list,
        json_schema_input_type=Event | Annotated[list[Event], Field(min_length=1, max_length=MOST_EVENTS)],
    ),
]


class Recorded(BaseModel):
    recorded: int = Field(description="Number of events; one that was sent before counts, and is kept once")


@router.post("")
async def record_feedback(
    body: Events, grant: Annotated[Grant, Depends(Caller("search:run"))], services: ServicesDep
) -> Recorded:
    """Record what a user or a judge says of hits: one event, or a list of at most 100, of which all or none are recorded.

    The same event again changes its grade and rank.  Events of User Behavior Insights (`query_id`, `action_name`,
    `event_attributes`) are read, too.  A search that has just ended takes feedback after a second.
    """
    rows = {}
    for request_id in dict.fromkeys(event.request_id for event in body):
        grant.check_owned(request_id)
        rows[request_id] = await _row(request_id, grant, services)
    feedback = feedback_of(body, rows, key_id=grant.key_id, source="user")
    await to_thread.run_sync(store.put, services.database, feedback)
    return Recorded(recorded=len(body))


async def _row(request_id: str, grant: Grant, services: Services) -> RequestRow:
    """Raises Problem, and the errors of a search that has not ended."""
    try:
        return await to_thread.run_sync(visible_row, grant, services, request_id)
    except Problem:
        answer = await services.client.answer(request_id)
        if not grant.sees_namespace(answer.namespace):
            raise
        wait = "this search has just ended: send its feedback again in a second"
        raise Problem("not_found", wait, request_id=request_id, retryable=True) from None


def feedback_of(
    events: Sequence[Event], rows: dict[str, RequestRow], *, key_id: str, source: Source
) -> list[Feedback]:
    """The rows of events about requests whose audit rows are given by id.  Raises InvalidRequest."""
    at_ms = time.time_ns() // 1_000_000
    ranks: dict[tuple[str, int], dict[str, int | None]] = {}
    feedback = []
    for place, event in enumerate(events):
        row = rows[event.request_id]
        if event.question >= len(row.questions):
            raise InvalidRequest(f"{place}.question: the search has {len(row.questions)}, counted from 0")
        of_question = ranks.get((event.request_id, event.question))
        if of_question is None:
            of_question = recorded_ranks(row, event.question)
            ranks[event.request_id, event.question] = of_question
        if event.document_id is not None and event.document_id not in of_question:
            hits = [hit.document_id for hit in row.questions[event.question].hits[:_NAMED]]
            there = f"; its hits: {', '.join(hits)}" if hits else ", which has no hit"
            raise InvalidRequest(f"{place}.document_id: no hit or candidate of this question{there}")
        feedback.append(
            Feedback.on(
                RecordedQuestion.of(row, event.question),
                event,
                at_ms=at_ms,
                key_id=key_id,
                source=source,
                ordinal=of_question.get(event.document_id or ""),
            )
        )
    return feedback
