"""The caller's side of the ledger: accept a request, wait for its answer, and end it if nobody else did.

The functions that return `Exchange` are the protocol; `CallersLedger` drives them with a synchronous Redis client.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydantic_core import from_json
from redis import Redis
from redis.client import PubSub
from redis.exceptions import ResponseError, TimeoutError

from chorale_client.connections import idle
from chorale_client.errors import NotEnded, RequestIdConflict, ServiceUnavailable, UnknownRequest, safe_repr
from chorale_client.keys import OUTBOX, OVERLOAD, SERVED, WAKEUPS, entry_key, result_key
from chorale_client.request import Request
from chorale_client.request_factory import request_json
from chorale_client.sans_io import Exchange, RoundTrip, Script, result_document, run_exchange
from chorale_client.scripts import PRELUDE, Scripts
from chorale_client.terminal_answers import not_ended_body, refused_body, unaudited_body
from chorale_client.wire_names import QUEUE_FUSION, QUEUE_RETRIEVE, STARTED_RESULT, Status

T = TypeVar("T")

ENTRY_TTL_AFTER_DEADLINE_S = 3_600
"""TTL of the entry of a request that nobody ends, after its deadline; every end deletes the entry."""

SHORTEST_S = 0.05
"""Shortest time limit of a request, however long its caller took to reach Redis."""

GRACE_S = 0.09
"""How long after the deadline a caller waits before it ends the request itself.

A sweeper that replaces a dead one may be 60 ms late, and its answer says more.
"""

REPLICATED_WITHIN_MS = 500
"""How long an acceptance waits for the replicas that it asks for."""
MOST_REPLICAS = 10


def check_replicas(replicas: int) -> int:
    """Returns `replicas`.  Raises ValueError for a number that is not allowed."""
    if not 0 <= replicas <= MOST_REPLICAS:
        raise ValueError(f"replicas is a number from 0 to {MOST_REPLICAS}, not {safe_repr(replicas)}")
    return replicas


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of `accept`: the request is in flight, had ended before, or is refused."""

    request_id: str
    state: str
    is_new: bool
    accepted_at_ms: int
    deadline_ms: int
    result: bytes | None = None
    """Celery's result document, if the request has ended."""


def is_refused(result: bytes) -> bool:
    """Whether the request was refused; then the same request may use its id again."""
    return bool(from_json(result)["result"].get("status") == Status.REFUSED)


def status_in_flight(state: str) -> Status:
    """The public status of a request that has not ended; only `accepted` is public, the other states are `running`."""
    return Status.ACCEPTED if state == Status.ACCEPTED else Status.RUNNING


def accept(
    request: Request,
    *,
    answer_ttl_ms: int,
    within_s: float | None = None,
    message: bytes = b"",
    replicas: int = 0,
) -> Exchange[Accepted]:
    """The steps of `CallersLedger.accept`."""
    mark = request.written.fingerprint
    timeout_ms = round(1000 * (request.timeout_s if within_s is None else max(within_s, SHORTEST_S)))
    request_id, questions = request.request_id, len(request.questions)
    keys = [entry_key(request_id), result_key(request_id), WAKEUPS, OUTBOX, OVERLOAD]

    def accepting(replaced: bytes = b"") -> RoundTrip:
        """`replaced`: an earlier refusal of the same request."""
        args = [request_id, request_json(request), mark, request.written.head, timeout_ms]
        args += [
            timeout_ms + ENTRY_TTL_AFTER_DEADLINE_S * 1000,
            answer_ttl_ms,
            refused_body(questions),
            replaced,
        ]
        args += [unaudited_body(questions)]
        script = Script("accept", keys, args)
        if message:
            script = Script("accept_and_send", [*keys, QUEUE_RETRIEVE], [*args, message])
        # Both commands use one connection: WAIT counts the replicas that have what its own connection has written.
        return [script, ("WAIT", replicas, REPLICATED_WITHIN_MS)] if replicas else [script]

    answer, *having_it = yield accepting()
    if _has_ended_as(mark, answer) and is_refused(answer[1]):
        answer, *having_it = yield accepting(answer[1])
    accepted = _accepted(request_id, mark, answer)
    if accepted.result is None and having_it:
        _require(replicas, having_it[0], request_id)
    return accepted


def _require(replicas: int, having_it: int, request_id: str) -> None:
    """Raises ServiceUnavailable if fewer replicas have the request."""
    if having_it < replicas:
        raise ServiceUnavailable(
            f"{request_id} was accepted, but only {having_it} of {replicas} replicas have it after "
            f"{REPLICATED_WITHIN_MS} ms, and a failover would lose it: send it again with the same id",
            accepted=request_id,
        )


def _accepted(request_id: str, mark: str, answer: Sequence[bytes]) -> Accepted:
    outcome = answer[0].decode()
    if outcome == "accepted":
        return Accepted(request_id, Status.ACCEPTED, True, int(answer[1]), int(answer[2]))
    if outcome == "known":
        return Accepted(request_id, answer[1].decode(), False, int(answer[2]), int(answer[3]))
    if outcome == "refused":
        return Accepted(request_id, Status.REFUSED, False, int(answer[1]), int(answer[2]), result=answer[3])
    if _has_ended_as(mark, answer):
        return Accepted(request_id, "ended", False, 0, 0, result=answer[1])
    raise RequestIdConflict(
        f"request_id: {safe_repr(request_id)} was used for a different request; choose another id"
    )


def _has_ended_as(mark: str, answer: Sequence[bytes]) -> bool:
    """Whether the script found the end of a request with this fingerprint."""
    return answer[0] == b"ended" and result_document(answer[1]).get("fingerprint") == mark


def has_workers() -> Exchange[bool]:
    """Whether a worker that fuses rankings was alive within the last ten seconds."""
    try:
        (served,) = yield [("EXISTS", SERVED + QUEUE_FUSION)]
    except ResponseError:
        return True  # this login may not read the key
    return bool(served)


def result(request_id: str) -> Exchange[bytes | None]:
    """The steps of `CallersLedger.result`."""
    (reply,) = yield [("GET", result_key(request_id))]
    return _ended(reply)


def _ended(result: bytes | None) -> bytes | None:
    """The result document; None if it is that of a request in flight."""
    return None if result is None or result.startswith(STARTED_RESULT.encode()) else result


def end_of(request_id: str) -> Exchange[bytes]:
    """The result document.  Raises NotEnded, UnknownRequest."""
    stored, state = yield [("GET", result_key(request_id)), ("HGET", entry_key(request_id), "state")]
    ended = _ended(stored)
    if ended is None and state is None:
        # The request may have ended between the two reads.
        ended = yield from result(request_id)
    if ended is not None:
        return ended
    if state is None:
        raise UnknownRequest(request_id)
    raise NotEnded(f"{request_id} is {status_in_flight(state.decode())}; ask again")


def finish_failed(request: Request, accepted_at_ms: int, *, answer_ttl_ms: int) -> Exchange[bytes]:
    """The steps of `CallersLedger.finish_failed`."""
    request_id = request.request_id
    args = [request_id, not_ended_body(request), request_json(request), request.written.fingerprint]
    args += [request.written.head, str(accepted_at_ms), str(answer_ttl_ms)]
    args += [not_ended_body(request, state) for state in ("planned", "fusing")]
    (ended,) = yield [Script("finish_failed", _keys_of_an_end(request_id), args)]
    return cast("bytes", ended)


def cancel(request_id: str) -> Exchange[bytes | None]:
    """The steps of `CallersLedger.cancel`."""
    (ended,) = yield [Script("cancel", _keys_of_an_end(request_id), [request_id])]
    return cast("bytes | None", ended)


def _keys_of_an_end(request_id: str) -> list[str]:
    return [entry_key(request_id), result_key(request_id), WAKEUPS, OUTBOX]


class CallersLedger:
    """Every method raises RedisError.  The Redis client must not decode responses.

    Tests give another `prelude` to bring another clock.
    """

    def __init__(self, client: Redis, *, answer_ttl_s: float = 600, prelude: str = PRELUDE) -> None:
        self._client = client
        self._answer_ttl_ms = int(answer_ttl_s * 1000)
        self._run = Scripts(client, prelude=prelude).run

    def accept(
        self,
        request: Request,
        *,
        within_s: float | None = None,
        run: Any = None,
        message: bytes = b"",
        replicas: int = 0,
    ) -> Accepted:
        """Enter the request; a known id returns its state.  Under overload, and while the outbox is full, the request
        ends immediately as `refused`.

        `within_s` is the rest of `timeout_s` that the caller has left, if that is less.  `run` gets keys and arguments
        of the script, and runs it as part of another one.  `message` is pushed for the workers in the same step, if the
        request is new.  Raises RequestIdConflict if the id belongs to a different request, and ServiceUnavailable if fewer
        than `replicas` have the request.
        """
        more: dict[str, Any] = {"within_s": within_s, "message": message, "replicas": replicas}
        steps = accept(request, answer_ttl_ms=self._answer_ttl_ms, **more)
        if run is None:
            return self.run_exchange(steps)
        return run_exchange(
            steps,
            lambda trip: [run(script.keys, script.args) for script in trip if isinstance(script, Script)],
        )

    def result(self, request_id: str) -> bytes | None:
        """Celery's result document of an ended request; None if there is none, or its TTL is over."""
        return self.run_exchange(result(request_id))

    def state(self, request_id: str) -> str | None:
        """The ledger's state of a request in flight; None if the request is not in flight."""
        state = cast("bytes | None", self._client.hget(entry_key(request_id), "state"))
        return state.decode() if state else None

    def wait(self, channel: PubSub, request_id: str, wait_s: float) -> bytes | None:
        """The announced result, or None after `wait_s` by this machine's monotonic clock.

        Subscribe before `accept`, so that no end is missed.  `channel` shows the confirmations too; without one in time
        the connection counts as lost, and this raises redis-py's TimeoutError.
        """
        name = result_key(request_id).encode()
        until, is_waiting = time.monotonic() + wait_s, True
        while (remaining_s := until - time.monotonic()) > 0:
            pause_s = idle.ANSWERS_WITHIN_S if is_waiting else idle.IDLE_S
            message = channel.get_message(timeout=min(remaining_s, pause_s))
            if message is None:
                if is_waiting and time.monotonic() < until:
                    raise TimeoutError("a subscription got no reply in time")
                channel.ping()
                is_waiting = True
            elif (message["type"], message["channel"]) == ("message", name):
                return cast(bytes, message["data"])
            elif (message["type"], message["channel"]) in (("subscribe", name), ("pong", None)):
                is_waiting = False
        return None

    def finish_failed(self, request: Request, accepted_at_ms: int) -> bytes:
        """End a request that nobody ended, even if its entry was lost.  Returns the result document, whoever wrote it."""
        return self.run_exchange(finish_failed(request, accepted_at_ms, answer_ttl_ms=self._answer_ttl_ms))

    def cancel(self, request_id: str) -> bytes | None:
        """End a request as `cancelled`.  Returns the result it ended with, now or before; None if the request is unknown."""
        return self.run_exchange(cancel(request_id))

    def run_exchange(self, steps: Exchange[T]) -> T:
        return run_exchange(steps, self._send)

    def _send(self, trip: RoundTrip) -> Sequence[Any]:
        if len(trip) == 1:
            (command,) = trip
            if isinstance(command, Script):
                return [self._run(command.name, command.keys, command.args)]
            return [self._client.execute_command(*command)]
        with self._client.pipeline(transaction=False) as pipeline:
            for command in trip:
                if isinstance(command, Script):
                    self._run(command.name, command.keys, command.args, client=pipeline)
                else:
                    pipeline.execute_command(*command)
            return cast("Sequence[Any]", pipeline.execute())
