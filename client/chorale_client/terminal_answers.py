"""The answers of requests that end without hits.

A tail is an answer's JSON text after its head (`chorale_client.ledger.head`).
"""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import to_json

from chorale_client.request import Request
from chorale_client.wire_names import WIRE_VERSION, Reason, Stage, Status


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
    """A tail up to its list of questions; the questions and `]}` follow."""
    fields = {
        "v": WIRE_VERSION,
        "status": str(status),
        "degraded": [{"where": where, "reason": str(reason), "detail": detail}],
        "stages": [],
        "warnings": [],
        "cached": False,
        "questions": [],
    }
    return to_json(fields).decode()[1:-2]


def _tail(status: Status, questions: int, *, where: str, reason: Reason, detail: str) -> str:
    front = until_questions(status, where=where, reason=reason, detail=detail)
    return front + ",".join([question_text(status)] * questions) + "]}"


def failed_tail(request: Request, *, where: str, reason: Reason, detail: str) -> str:
    """The tail of a failed request."""
    return _tail(Status.FAILED, len(request.questions), where=where, reason=reason, detail=detail)


UNAUDITED_RETRY_AFTER_S = 5.0
"""About the time that a database needs to restart; the drainer retries at least every ten seconds."""

_NOT_ENDED = {
    "planned": (Stage.FUSE, Reason.NOT_STARTED),
    "fusing": (Stage.FUSE, Reason.TIMEOUT),
}


def not_ended_tail(request: Request, state: str | None = None) -> str:
    """The tail of a request that its caller ended after waiting in vain, by the state of the request."""
    where, reason = _NOT_ENDED.get(state or "", (Stage.PLAN, Reason.NOT_STARTED))
    detail = "nothing ended the request by its deadline; are workers and a sweeper running?"
    return failed_tail(request, where=where, reason=reason, detail=detail)


@lru_cache
def refused_tail(questions: int) -> str:
    """The tail of a request that is refused under overload; the ledger adds `retry_after_s`."""
    detail = "too much is waiting already; ask again after `retry_after_s` seconds"
    return _tail(Status.REFUSED, questions, where=Stage.PLAN, reason=Reason.OVERLOAD, detail=detail)


@lru_cache
def unaudited_tail(questions: int) -> str:
    """The tail of a request that is refused because the outbox is full."""
    detail = (
        "the outbox for the audit tables is full (CHORALE_OUTBOX_LIMIT); "
        "ask again after `retry_after_s` seconds"
    )
    refused = _tail(Status.REFUSED, questions, where=Stage.PLAN, reason=Reason.OVERLOAD, detail=detail)
    return f'"retry_after_s":{UNAUDITED_RETRY_AFTER_S:.3f},{refused}'


CANCELLED_UNTIL_QUESTIONS = until_questions(
    Status.CANCELLED, where=Stage.PLAN, reason=Reason.CANCELLED, detail="by the caller"
)
CANCELLED_QUESTION = question_text(Status.CANCELLED)
