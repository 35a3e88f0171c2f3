"""Answers by hand, as the service would send them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from chorale_client.answer import Answer
from chorale_client.request import Request


def hit(rank: int, document_id: str, **fields: Any) -> dict[str, Any]:
    ids = {"document_id": document_id, "passage_id": f"{document_id}#0"}
    return {"rank": rank, **ids, "score": 1 / rank, **fields}


def question(*ids: str, status: str = "complete", **fields: Any) -> dict[str, Any]:
    """A question that has these documents as its hits."""
    return {"status": status, "hits": [hit(rank, id_) for rank, id_ in enumerate(ids, 1)], **fields}


def answer(*questions: dict[str, Any], missing: Sequence[tuple[str, str]] = (), **fields: Any) -> Answer:
    """`missing` has the places and reasons of what is missing; an answer with any is degraded."""
    degraded = [{"where": where, "reason": reason} for where, reason in missing]
    status = "degraded" if degraded else "complete"
    wire = {"request_id": "r", "status": status, "degraded": degraded, "questions": questions}
    return Answer.from_wire({**wire, **fields})


class Service:
    """Answers the questions of each request with the given ones in turn, and keeps the requests."""

    def __init__(self, *questions: dict[str, Any], missing: Sequence[tuple[str, str]] = ()) -> None:
        self.questions, self.missing = questions, missing
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Answer:
        self.requests.append(request)
        turns = zip(request.questions, cycle(self.questions), strict=False)
        return answer(*(question for _, question in turns), missing=self.missing)
