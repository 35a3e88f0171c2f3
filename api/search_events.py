"""The stages of a search as server-sent events (WHATWG HTML, 9.2).

An event's id says what its reader has seen, so `Last-Event-ID` goes on with the next one, in any process of the API.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from typing import Annotated, Any

from chorale_client.errors import ChoraleError
from chorale_client.events import Event
from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from api.caller import KeyFirst
from api.searches import PATH, Parts, Reader, wire_answer
from api.services import Own
from api.shutdown import Closing

log = logging.getLogger(__name__)
router = APIRouter(prefix=PATH, tags=["searches"], route_class=KeyFirst)

RECONNECT_MS = 1_000
KEEP_ALIVE_S = 15.0
"""Proxies close connections on which nothing is sent."""


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
    own: Own,
    last_event_id: Annotated[str, Header(description="The id of the last event that the reader has")] = "",
    include: Parts = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """The stages of a search until its end, as server-sent events: `accepted`, `planned`, `branch`, `fusing` and `ended`,
    which has the answer."""
    grant.check_owned(search_id)
    events = own.asking.events(search_id, after=last_event_id)
    # An unknown id is an error with a status of its own; after the first event it is too late for one.
    first = await anext(events, None)
    if first is None:
        return Response(status_code=204)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        _stream(search_id, include, first, events, own.closing),
        media_type="text/event-stream",
        headers=headers,
    )


async def _stream(
    search_id: str, parts: Collection[str], first: Event, events: AsyncIterator[Event], closing: Closing
) -> AsyncIterator[bytes]:
    yield f"retry: {RECONNECT_MS}\n".encode() + _text(search_id, first, parts)
    following = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            await closing.unless_begun(asyncio.wait({following}, timeout=KEEP_ALIVE_S))
            if following.done():
                if (event := _next_of(following)) is None:
                    return
                yield _text(search_id, event, parts)
                following = asyncio.ensure_future(anext(events, None))
            elif closing.has_begun:
                return  # the reader connects again, to another process
            else:
                yield b": still running\n\n"
    finally:
        following.cancel()


def _next_of(following: asyncio.Future[Event | None]) -> Event | None:
    """The next event.  None ends the stream: after the last event, and if Redis does not answer; then the reader connects
    again and gets the error's status."""
    try:
        return following.result()
    except ChoraleError as error:
        log.warning("a stream of events ends early: %s", error)
        return None


def _text(search_id: str, event: Event, parts: Collection[str]) -> bytes:
    data: dict[str, Any] = {"v": 1, "request_id": search_id, **event.to_wire()}
    if event.answer is not None:
        data["answer"] = wire_answer(event.answer, parts).model_dump(mode="json", exclude_unset=True)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.id.encode(), event.stage.encode(), to_json(data))
