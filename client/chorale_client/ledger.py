"""A caller's side of the ledger: accept a request, wait for its answer, end it when nobody else did."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json, to_json
from redis import Redis
from redis.client import PubSub
from redis.commands.core import Script

from chorale_client.errors import RequestIdConflict
from chorale_client.keys import MOMENTS, OUTBOX, entry_key, result_key
from chorale_client.request import Request
from chorale_client.scripts import PRELUDE, source
from chorale_client.words import WIRE_VERSION, Reason, Status

KEPT_AFTER_DEADLINE_S = 3_600
"""How long the entry of a request that nobody ended is kept; every end deletes it at once."""

GRACE_S = 0.2
"""How long after the deadline a caller goes on waiting before it ends the request itself."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What `accept` found: the request is in flight, or had ended before."""

    request_id: str
    state: str
    is_new: bool
    accepted_at_ms: int
    deadline_ms: int
    result: bytes | None = None
    """Celery's result document, where the request had ended."""


def fingerprint(request: Request) -> str:
    """Equal for equal requests; tells an id that is used again for something else."""
    return hashlib.sha256(request.model_dump_json().encode()).hexdigest()[:32]


def head(request: Request) -> str:
    """The first fields of the answer, as JSON text without its closing brace."""
    fields = {"request_id": request.request_id, "correlation_id": request.correlation_id}
    return to_json(fields).decode()[1:-1]


def failed_tail(request: Request, *, where: str, reason: Reason, detail: str) -> str:
    """The rest of the answer of a request that came to nothing."""
    question = {
        "status": str(Status.FAILED),
        "hits": [],
        "total_matches": 0,
        "confidence": None,
        "context": None,
        "ordered_by": "score",
        "coverage": 0.0,
        "took_ms": 0.0,
    }
    fields = {
        "v": WIRE_VERSION,
        "status": str(Status.FAILED),
        "degraded": [{"where": where, "reason": str(reason), "detail": detail}],
        "stages": [],
        "warnings": [],
        "cached": False,
        "questions": [question] * len(request.questions),
    }
    return to_json(fields).decode()[1:]


class CallersLedger:
    """`accept`, `wait`, `result` and `finish_failed`.  The Redis client must not decode responses.

    `prelude` stands in front of every script; another one brings another clock.
    """

    def __init__(self, client: Redis, *, answer_ttl_s: float = 600, prelude: str = PRELUDE) -> None:
        self._client = client
        self._prelude = prelude
        self._answer_ttl_ms = int(answer_ttl_s * 1000)
        self._scripts: dict[str, Script] = {}

    def _run(self, name: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        script = self._scripts.get(name)
        if script is None:
            script = self._scripts[name] = self._client.register_script(source(name, self._prelude))
        return script(keys=keys, args=args)

    def accept(self, request: Request) -> Accepted:
        """Enter the request; a known id answers with its state.

        Raises RequestIdConflict where the id belongs to a different request.
        """
        request_id = request.request_id
        timeout_ms = round(request.timeout_s * 1000)
        answer = self._run(
            "accept",
            [entry_key(request_id), result_key(request_id), MOMENTS],
            [
                request_id,
                request.model_dump_json(),
                fingerprint(request),
                head(request),
                timeout_ms,
                timeout_ms + KEPT_AFTER_DEADLINE_S * 1000,
                self._answer_ttl_ms,
            ],
        )
        outcome = answer[0].decode()
        if outcome == "accepted":
            return Accepted(request_id, Status.ACCEPTED, True, int(answer[1]), int(answer[2]))
        if outcome == "known":
            return Accepted(request_id, answer[1].decode(), False, int(answer[2]), int(answer[3]))
        if outcome == "ended" and from_json(answer[1]).get("fingerprint") == fingerprint(request):
            return Accepted(request_id, "ended", False, 0, 0, result=answer[1])
        raise RequestIdConflict(
            f"request_id: {request_id!r} was used for a different request; choose another id"
        )

    def result(self, request_id: str) -> bytes | None:
        """Celery's result document of an ended request, while it is kept."""
        return cast("bytes | None", self._client.get(result_key(request_id)))

    def state(self, request_id: str) -> str | None:
        """The ledger's word for a request in flight; None where it has none."""
        found = cast("bytes | None", self._client.hget(entry_key(request_id), "state"))
        return found.decode() if found else None

    def wait(self, channel: PubSub, request_id: str, wait_s: float) -> bytes | None:
        """The announced result, or None after `wait_s` by this machine's monotonic clock.

        Subscribe before `accept`, so that no end is missed.
        """
        name = result_key(request_id).encode()
        until = time.monotonic() + wait_s
        while (left_s := until - time.monotonic()) > 0:
            message = channel.get_message(timeout=left_s)
            if message is not None and message["channel"] == name:
                return cast(bytes, message["data"])
        return None

    def finish_failed(self, request: Request, accepted_at_ms: int) -> bytes:
        """End a request that nobody ended; returns the result document, whoever wrote it."""
        request_id = request.request_id
        tail = failed_tail(
            request,
            where="plan",
            reason=Reason.NOT_STARTED,
            detail="nothing ended the request by its deadline; are workers and a sweeper running?",
        )
        keys = [entry_key(request_id), result_key(request_id), MOMENTS, OUTBOX]
        args = [request_id, tail, request.model_dump_json(), fingerprint(request), head(request)]
        args += [str(accepted_at_ms), str(self._answer_ttl_ms)]
        return cast(bytes, self._run("finish_failed", keys, args))
