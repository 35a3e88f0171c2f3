"""The answers of requests that end without hits.

A body is an answer as a JSON object without its head (`chorale_client.ledger.head`), which the script that ends the request puts
in front.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic_core import to_json

from chorale_client.wire_names import WIRE_VERSION, Reason, Stage, Status

if TYPE_CHECKING:
    from chorale_client.request import Request


def question_text(status: Status) -> str:
    """One question without hits, as JSON text."""
    question = {
        "status": str(status),
        "hits": [],
        "total_matches": 0,
        "ordered_by": "score",
        "coverage": 0.0,
        "took_ms": 0.0,
    }
    return to_json(question).decode()


def until_questions(status: Status, *, where: str, reason: Reason, detail: str) -> str:
    """A body up to its list of questions; the questions and `]}` follow."""
    fields = {
        "v": WIRE_VERSION,
        "status": str(status),
        "degraded": [{"where": where, "reason": str(reason), "detail": detail}],
        "stages": [],
        "warnings": [],
        "cached": False,
        "questions": [],
    }
    return to_json(fields).decode()[:-2]


def _body(status: Status, questions: int, *, where: str, reason: Reason, detail: str) -> str:
    front = until_questions(status, where=where, reason=reason, detail=detail)
    return front + ",".join([question_text(status)] * questions) + "]}"


def failed_body(request: Request, *, where: str, reason: Reason, detail: str) -> str:
    """The body of a failed request."""
    return _body(Status.FAILED, len(request.questions), where=where, reason=reason, detail=detail)


UNAUDITED_RETRY_AFTER_S = 5.0
"""About the time that a database needs to restart; the drainer retries at least every ten seconds."""

_NOT_ENDED = {"planned": (Stage.FUSE, Reason.NOT_STARTED), "fusing": (Stage.FUSE, Reason.TIMEOUT)}


def not_ended_body(request: Request, state: str | None = None) -> str:
    """The body of a request that its caller ended after waiting in vain, by the state of the request."""
    where, reason = _NOT_ENDED.get(state or "", (Stage.PLAN, Reason.NOT_STARTED))
    detail = "nothing ended the request by its deadline; are workers and a sweeper running?"
    return failed_body(request, where=where, reason=reason, detail=detail)


@lru_cache
def refused_body(questions: int) -> str:
    """The body of a request that is refused under overload; the ledger adds `retry_after_s`."""
    detail = "too much is waiting already; ask again after `retry_after_s` seconds"
    return _body(Status.REFUSED, questions, where=Stage.PLAN, reason=Reason.OVERLOAD, detail=detail)


@lru_cache
def unaudited_body(questions: int) -> str:
    """The body of a request that is refused because the outbox is full."""
    detail = (
        "the outbox for the audit tables is full (CHORALE_OUTBOX_LIMIT); "
        "ask again after `retry_after_s` seconds"
    )
    refused = _body(Status.REFUSED, questions, where=Stage.PLAN, reason=Reason.OVERLOAD, detail=detail)
    return f'{{"retry_after_s":{UNAUDITED_RETRY_AFTER_S:.3f},{refused[1:]}'


CANCELLED_UNTIL_QUESTIONS = until_questions(
    Status.CANCELLED, where=Stage.PLAN, reason=Reason.CANCELLED, detail="by the caller"
)
CANCELLED_QUESTION = question_text(Status.CANCELLED)
