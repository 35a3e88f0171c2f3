"""One line of the log for each ended request."""

from __future__ import annotations

from collections.abc import Sequence

from structlog import get_logger

from audit.outbox import Ended
from monitoring.ended_branches import ended_branches

log = get_logger("chorale.request")


def log_ended(requests: Sequence[Ended]) -> None:
    """Write the lines at INFO.  `config.logging` leaves `questions` out unless the installation wants texts."""
    for one in requests:
        request, answer = one.request, one.answer
        questions = request.get("questions") or ()
        log.info(
            "request",
            request_id=one.request_id,
            correlation_id=request.get("correlation_id"),
            namespace=request.get("namespace"),
            status=answer.get("status"),
            by=one.by,
            took_ms=one.ended_at_ms - one.accepted_at_ms,
            degraded=[f"{missing['where']} {missing['reason']}" for missing in answer.get("degraded") or ()],
            cached=bool(answer.get("cached")),
            asked=len(questions),
            hits=sum(len(question.get("hits") or ()) for question in answer.get("questions") or ()),
            branches={
                branch.name: {"outcome": branch.outcome, "ms": branch.ms} for branch in ended_branches(one)
            },
            questions=[question.get("text") for question in questions],
        )
