"""Feedback: what a user or a judge says of the hits of a search."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated

from anyio import to_thread
from chorale_client.errors import InvalidRequest
from fastapi import APIRouter, Depends
from pydantic import BaseModel, BeforeValidator, Field
from sqlalchemy import Engine

from api.audit import visible_row
from api.caller import Caller, KeyFirst
from api.problems import Problem
from api.services import Services, ServicesDep
from models.tables.audit import RequestRow
from records.judgements import store
from records.judgements.feedback import Event, Feedback, RecordedQuestion, Source, candidates_of
from records.keys.grant import Grant

router = APIRouter(prefix="/v1/feedback", tags=["feedback"], route_class=KeyFirst)

MOST_EVENTS = 100
_NAMED = 10
"""Hits that an error names."""


EventList = Annotated[list[Event], Field(min_length=1, max_length=MOST_EVENTS)]
Events = Annotated[
    EventList,
    BeforeValidator(
        lambda body: body if isinstance(body, list) else [body], json_schema_input_type=Event | EventList
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
        rows[request_id] = await recorded_row(request_id, grant, services)
    await to_thread.run_sync(record, services.database, body, rows, grant.key_id, "user")
    return Recorded(recorded=len(body))


async def recorded_row(request_id: str, grant: Grant, services: Services) -> RequestRow:
    """The request of the key's tenant in the trail.  Raises OutOfScope, Problem; for a search that has not ended, NotEnded."""
    grant.check_owned(request_id)
    try:
        return await to_thread.run_sync(visible_row, grant, services, request_id)
    except Problem:
        answer = await services.client.of(request_id).answer(request_id)
        if not grant.sees_namespace(answer.namespace):
            raise
        wait = "this search has just ended: send its feedback again in a second"
        raise Problem("not_found", wait, request_id=request_id, retryable=True) from None


def record(
    database: Engine, events: Sequence[Event], rows: Mapping[str, RequestRow], key_id: str, source: Source
) -> None:
    """Write the events, whose requests `rows` has by id.  Raises InvalidRequest, NotRecorded, SQLAlchemyError."""
    at_ms = time.time_ns() // 1_000_000
    candidates = cache(lambda request_id: candidates_of(rows[request_id]))  # they are long
    feedback = []
    for place, event in enumerate(events):
        row = rows[event.request_id]
        if event.question >= len(row.questions):
            raise InvalidRequest(f"{place}.question: the search has {len(row.questions)}, counted from 0")
        ranks = {hit.document_id: hit.rank for hit in row.questions[event.question].hits}
        document = event.document_id or ""
        # With `CHORALE_AUDIT_HITS_SHARE` nobody knows what a request without hits has found.
        is_known = bool(ranks) or any(branch.candidates for branch in row.branches)
        if (
            document
            and is_known
            and document not in ranks
            and document not in candidates(row.request_id)[event.question]
        ):
            hits = ", ".join(list(ranks)[:_NAMED]) or "none"
            raise InvalidRequest(
                f"{place}.document_id: no hit or candidate of this question; its hits: {hits}"
            )
        seen = event.model_copy(update={"rank": event.rank or ranks.get(document)})
        question = RecordedQuestion.of(row, event.question)
        feedback.append(Feedback.on(question, seen, at_ms, key_id, source))
    store.put(database, feedback)
