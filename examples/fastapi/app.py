"""A FastAPI application that searches its articles: `uvicorn app:app`, in this folder.

`chorale up` prints the address for CHORALE_REDIS_URL.  The application needs fastapi, uvicorn and chorale-client.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from chorale_client import AsyncChorale, Event, ServiceUnavailable, UnknownRequest
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

NAMESPACE = "articles"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # One client for the whole process: it belongs to this event loop and never blocks it.
    async with AsyncChorale(os.environ["CHORALE_REDIS_URL"]) as chorale:
        app.state.chorale = chorale
        yield


app = FastAPI(lifespan=lifespan)


def chorale_of(request: Request) -> AsyncChorale:
    chorale: AsyncChorale = request.app.state.chorale
    return chorale


Client = Annotated[AsyncChorale, Depends(chorale_of)]


@app.exception_handler(ServiceUnavailable)
async def unavailable(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=503, headers={"Retry-After": "1"})


@app.put("/articles/{number}")
async def save(number: int, title: str, text: str, chorale: Client) -> dict[str, str]:
    """Save an article.  It can be found when this has answered."""
    article = {
        "id": f"article-{number}",
        "title": title,
        "text": text,
        "metadata": {"url": f"/articles/{number}"},
    }
    ticket = await chorale.upsert(NAMESPACE, [article])
    await chorale.wait_visible(ticket)
    return {"id": article["id"]}


@app.get("/search")
async def search(question: str, chorale: Client) -> dict[str, Any]:
    """Answer in at most half a second, with whatever the branches have found by then."""
    answer = await chorale.retrieve(question, namespace=NAMESPACE, timeout_s=0.5)
    return {
        "status": answer.status,
        "hits": [
            {"title": hit.title, "url": hit.url, "snippet": hit.snippet and hit.snippet.text}
            for hit in answer.hits
        ],
    }


@app.post("/searches", status_code=202)
async def begin(question: str, chorale: Client) -> dict[str, str]:
    """Begin a search that may take long, and return its id at once."""
    handle = await chorale.submit(question, namespace=NAMESPACE, timeout_s=20)
    return {"id": handle.id}


async def begun(
    search_id: str, chorale: Client, last_event_id: Annotated[str, Header()] = ""
) -> tuple[Event | None, AsyncIterator[Event]]:
    """The first event, and those after it.  Once a stream has begun, it is too late for a 404."""
    later_events = chorale.handle(search_id).events(after=last_event_id)
    try:
        return await anext(later_events, None), later_events
    except UnknownRequest as error:
        raise HTTPException(404, str(error)) from None


@app.get("/searches/{search_id}/events", response_class=EventSourceResponse)
async def events(
    begun: Annotated[tuple[Event | None, AsyncIterator[Event]], Depends(begun)],
) -> AsyncIterator[ServerSentEvent]:
    """The stages of a search for a progress bar.  A browser's EventSource connects again by itself and misses none."""
    event, later_events = begun
    while event is not None:
        yield ServerSentEvent(data=event.to_wire(), event=event.stage, id=event.id)
        event = await anext(later_events, None)
