"""Searches: a search is a request in the ledger, its answer is the client's `Answer`, and its stages are server-sent events
(WHATWG HTML, 9.2).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing, suppress
from functools import partial
from typing import Annotated, Any, Literal

from chorale_client.answer import Answer, StageLine
from chorale_client.callbacks import Linked
from chorale_client.coverage import coverage_of
from chorale_client.errors import ChoraleError, InvalidRequest, NotEnded
from chorale_client.events import Event, Standing
from chorale_client.request import Include, Request
from chorale_client.request_factory import request_json
from chorale_client.tracing import current_traceparent, valid_traceparent
from chorale_client.wire_names import Reason, Status, consequence
from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import to_json
from starlette.requests import Request as HttpRequest

from api.caller import Caller, KeyFirst
from api.headers import LONGEST_WAIT_S, IdempotencyKey, Preferences, id_for, preferences
from api.limits import count_cost
from api.problems import RETRY_AFTER_S, Problem, ProblemDocument, field_of, response_of
from api.services import Services, ServicesDep
from api.timestamps import SCHEMA
from api.waiting import Closing, ending_in_time, unless_gone, with_pauses
from models.plan import ordinary_calls
from records.keys.grant import Grant
from records.keys.redaction import redacted, unknown_namespace

log = logging.getLogger(__name__)

PATH = "/v1/searches"
router = APIRouter(prefix=PATH, tags=["searches"], route_class=KeyFirst)

Reader = Annotated[Grant, Depends(Caller("search:run", "search:read"))]
Runner = Annotated[Grant, Depends(Caller("search:run"))]

RECONNECT_MS = 1_000
KEEP_ALIVE_S = 15.0
"""Proxies close connections on which nothing is sent."""
STAGES = "stages"
Parts = Annotated[
    list[Literal["stages"]],
    Query(alias="include", description="`stages`: each step of the search with its times"),
]
"""What an answer has besides hits and coverage."""


class SearchRequest(Request):
    """What to search, and how.  The service makes the id."""

    include: Annotated[tuple[Literal[Include, "stages"], ...], Field(fail_fast=True)] = Field(  # type: ignore[assignment]
        Request.model_fields["include"].default,
        max_length=16,
        strict=False,
        description="The parts of each hit, and `stages`: each step of the search with its times",
    )
    request_id: SkipJsonSchema[str] = ""
    on_end: SkipJsonSchema[dict[str, str] | None] = None
    linked: SkipJsonSchema[tuple[Linked, ...]] = ()
    headers: SkipJsonSchema[dict[str, Any]] = Field(default_factory=dict)


class SearchAnswer(Answer):
    """The end of a search.  A field of a question, a hit or a stage is absent if it is empty."""

    ended_at: Annotated[str, WithJsonSchema(SCHEMA)] = Field(description="By the clock of Redis")
    stages: tuple[StageLine, ...] = Field((), description="Absent unless `include` names them")
    coverage: dict[str, str] = Field(
        default_factory=dict,
        description="For each branch of the search: `ok`, `empty`, or the reason why it is missing.  An answer from the "
        "cache has no branch, and is complete",
    )


class SearchState(BaseModel):
    """A search that has not ended."""

    v: int = 1
    request_id: str
    status: str = Field(description="`accepted` or `running`")
    coverage: dict[str, str] | None = Field(
        None, description="With `partial`: for each branch `ok`, `empty`, `failed`, or `running`"
    )


NOT_OVER_HTTP = {
    "request_id": "unknown field; the header `Idempotency-Key` makes a call repeatable",
    "on_end": "unknown field; a key may not send tasks to other applications",
    "linked": "unknown field; a key may not send tasks to other applications",
    "headers": "unknown field; a key may not send tasks to other applications",
}

UNKNOWN_TO_THE_PIPELINE = ("plan", Reason.NOT_CONFIGURED)

NOT_ENDED: dict[int | str, dict[str, Any]] = {
    202: {
        "model": SearchState,
        "description": "The search has not ended; `Location` is where its answer will be",
    },
    429: {
        "model": ProblemDocument,
        "description": "The search was refused, or the key has used its calls of this minute",
    },
    503: {"model": ProblemDocument, "description": "The search failed; `answer` says why"},
}


@router.post("", response_model=SearchAnswer, responses=NOT_ENDED)
async def create_search(
    body: SearchRequest,
    http: HttpRequest,
    grant: Runner,
    services: ServicesDep,
    preferred: Annotated[Preferences, Depends(preferences)],
    traceparent: Annotated[str | None, Header(include_in_schema=False)] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Search, and wait for the answer.

    `Prefer: wait=3` waits at most 3 s, and `Prefer: respond-async` does not wait: a search that has not ended then is
    answered with 202 and its `Location`.
    """
    request_id = id_for(idempotency_key, f"POST {PATH}", body.namespace, grant)
    parts = [STAGES] if STAGES in body.include else []
    request = grant.applied(
        await services.client.with_default_timeout(checked(body, request_id, traceparent))
    )
    await count_cost(http, grant, services.redis, ordinary_calls(request.questions))
    if preferred.wait_s is None:
        asking = asyncio.ensure_future(services.client.ask(request))
        # With a key the search goes on even if the caller goes away: it will call again.
        answer = await unless_gone(http, asking if idempotency_key is None else asyncio.shield(asking))
        response = ended(answer, grant, parts)
    else:
        async with ending_in_time(preferred.wait_s):
            handle = await services.client.submit_request(request)
            if handle.state == "new" and preferred.wait_s == 0:
                response = not_ended(handle.id, Standing(Status.ACCEPTED, {}), partial=False)
            else:
                response = await _within(http, services, grant, handle.id, preferred.wait_s, parts)
    if preferred.applied:
        response.headers["Preference-Applied"] = preferred.applied
    return response


@router.get("/{search_id}", response_model=SearchAnswer, responses=NOT_ENDED)
async def get_search(
    search_id: str,
    http: HttpRequest,
    grant: Reader,
    services: ServicesDep,
    wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for the end")] = 0,
    partial: Annotated[bool, Query(description="Say which branches have answered so far")] = False,
    include: Parts = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """The answer of a search, for as long as it is kept; what is known so far if it has not ended."""
    grant.check_owned(search_id)
    async with ending_in_time(wait):
        return await _within(http, services, grant, search_id, wait, include, partial=partial)


@router.delete("/{search_id}", response_model=SearchAnswer)
async def cancel_search(
    search_id: str,
    grant: Runner,
    services: ServicesDep,
    include: Parts = [],  # noqa: B006
) -> Response:
    """End a search, and return its answer.  A search that had already ended keeps the answer that it had."""
    grant.check_owned(search_id)
    return ended(await services.client.of(search_id).cancel(search_id), grant, include)


async def _within(
    http: HttpRequest,
    services: Services,
    grant: Grant,
    search_id: str,
    wait_s: float,
    parts: Collection[str],
    *,
    partial: bool = False,
) -> Response:
    """The answer, or 202 if there is none after `wait_s` or when the server stops."""
    if wait_s > 0:
        with suppress(NotEnded):
            waiting = services.client.of(search_id).answer(search_id, wait_s=wait_s)
            answer = await services.closing.unless_begun(unless_gone(http, waiting))
            if answer is not None:
                return ended(answer, grant, parts)
    if (standing := await services.client.of(search_id).standing(search_id)) is None:
        return ended(await services.client.of(search_id).answer(search_id), grant, parts)
    return not_ended(search_id, standing, partial=partial)


def checked(body: SearchRequest, request_id: str, traceparent: str | None) -> Request:
    """The request with its id and its caller's span: its own, that of a process which is instrumented for OpenTelemetry, or
    the header's.  Raises InvalidRequest."""
    for name in NOT_OVER_HTTP.keys() & body.model_fields_set:
        raise InvalidRequest(f"{name}: {NOT_OVER_HTTP[name]}")
    span = body.traceparent or current_traceparent() or valid_traceparent(traceparent)
    include = tuple(part for part in body.include if part != STAGES)
    request = body.model_copy(update={"request_id": request_id, "traceparent": span, "include": include})
    request_json(request)
    return request


def wire_answer(answer: Answer, parts: Collection[str]) -> SearchAnswer:
    """The answer as this API gives it; dump it with `exclude_unset`."""
    public = redacted(answer)
    fields = {**public.__dict__, "coverage": coverage_of(public)["branches"]}
    if STAGES not in parts:
        del fields[STAGES]
    return SearchAnswer.model_construct(**fields)


def ended(answer: Answer, grant: Grant, parts: Collection[str]) -> Response:
    """The response to a search that has ended: 200, or a problem if it was refused (429), failed (503), asked in a namespace
    that is not there (404), or asked for what the pipeline does not have (422)."""
    body = wire_answer(answer, parts)
    headers = {"Chorale-Status": answer.status, "Cache-Control": "no-store"}
    if answer.status not in (Status.REFUSED, Status.FAILED):
        return Response(
            body.model_dump_json(exclude_unset=True), headers=headers, media_type="application/json"
        )
    problem = partial(Problem, request_id=answer.request_id, headers=headers)
    for part in answer.degraded:
        if (part.where, part.reason) == UNKNOWN_TO_THE_PIPELINE:
            return response_of(problem("invalid", part.detail, field=field_of(part.detail)))
    if (missing := unknown_namespace(answer, grant.sees_namespace)) is not None:
        return response_of(problem("not_found", missing, field="namespace"))
    is_refused = answer.status == Status.REFUSED
    is_retryable = is_refused or any(consequence(part.reason).is_retryable for part in answer.degraded)
    if is_retryable:
        headers["Retry-After"] = str(max(RETRY_AFTER_S, math.ceil(answer.retry_after_s or 0)))
    why = "; ".join(f"{part.where}: {part.reason}" for part in answer.degraded)
    why = why or "the policy of the request was not met"
    wire = body.model_dump(mode="json", exclude_unset=True)
    code = "refused" if is_refused else "failed"
    return response_of(problem(code, why, retryable=is_retryable, answer=wire))


def not_ended(request_id: str, standing: Standing, *, partial: bool) -> Response:
    """202: where the answer will be, and when to look."""
    headers = {
        "Location": f"{PATH}/{request_id}",
        "Retry-After": str(RETRY_AFTER_S),
        "Chorale-Status": standing.status,
        "Cache-Control": "no-store",
    }
    coverage = dict(standing.branches) if partial else None
    body = SearchState(request_id=request_id, status=standing.status, coverage=coverage)
    return Response(
        body.model_dump_json(exclude_none=True), 202, headers=headers, media_type="application/json"
    )


@router.get(
    "/{search_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "The events"},
        204: {"description": "The reader has the last event"},
    },
)
async def watch_search(
    search_id: str,
    grant: Reader,
    services: ServicesDep,
    last_event_id: Annotated[str, Header(description="The id of the last event that the reader has")] = "",
    include: Parts = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """The stages of a search until its end, as server-sent events: `accepted`, `planned`, `branch`, `fusing` and `ended`,
    which has the answer."""
    grant.check_owned(search_id)
    events = services.client.of(search_id).events(search_id, after=last_event_id)
    # An unknown id is an error with a status of its own; after the first event it is too late for one.
    first = await anext(events, None)
    if first is None:
        return Response(status_code=204)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        _stream(search_id, include, first, events, services.closing),
        media_type="text/event-stream",
        headers=headers,
    )


async def _stream(
    search_id: str, parts: Collection[str], first: Event, events: AsyncIterator[Event], closing: Closing
) -> AsyncIterator[bytes]:
    yield f"retry: {RECONNECT_MS}\n".encode() + _text(search_id, first, parts)
    async with aclosing(with_pauses(events, KEEP_ALIVE_S, closing.unless_begun)) as coming:
        try:
            async for event in coming:
                if event is not None:
                    yield _text(search_id, event, parts)
                elif closing.has_begun:
                    return  # the reader connects again, to another process
                else:
                    yield b": still running\n\n"
        except ChoraleError as error:  # the reader connects again, and gets the error's status
            log.warning("a stream of events ends early: %s", error)


def _text(search_id: str, event: Event, parts: Collection[str]) -> bytes:
    data: dict[str, Any] = {"v": 1, "request_id": search_id, **event.to_wire()}
    if event.answer is not None:
        data["answer"] = wire_answer(event.answer, parts).model_dump(mode="json", exclude_unset=True)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.id.encode(), event.stage.encode(), to_json(data))
