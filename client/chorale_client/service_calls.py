"""Calls of a caller that has Redis to the sweeper process, which has the database: bulk jobs, and what is in the namespaces.

A call is JSON on a Redis list, and its reply on a list of the caller's own, whatever the broker is.  A call without a reply
is sent again, so every call may be done twice.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from pydantic_core import from_json, to_json
from redis import Redis

from chorale_client.documents import check_memory
from chorale_client.errors import (
    ChoraleError,
    InvalidJob,
    NoSuchJob,
    QueueFull,
    ServiceUnavailable,
    WrongJobState,
)
from chorale_client.keys import JOB_COMMANDS, JOB_REPLY
from chorale_client.sans_io import TRANSIENT, redis_errors_translated
from chorale_client.wire_names import WIRE_VERSION

REPLY_S = 15.0
AGAIN_S = 10.0
"""A call without a reply is sent again after this time."""
POLL_S = 1.0
"""Pause before another attempt, and longest wait of one BLPOP.  It is shorter than the first attempt of a command."""
BYTES_A_BYTE = 2
"""Redis holds a call twice while it is written."""
FROM_WIRE: dict[str, type[ChoraleError]] = {
    "no_such_job": NoSuchJob,
    "wrong_job_state": WrongJobState,
    "invalid_job": InvalidJob,
}


class ServiceCall:
    """One call, which is sent at once; the caller may do something else before it waits for the result."""

    def __init__(self, redis: Redis, do: str, *, socket_timeout_s: float, **arguments: Any) -> None:
        self._redis = redis
        self._poll_s = min(POLL_S, socket_timeout_s / 4)
        self._do, self._caller = do, uuid.uuid4().hex
        head = {"v": WIRE_VERSION, "do": do, "caller": self._caller, "number": 1}
        self._message = to_json({**head, "given": arguments})
        self._again_at_s = 0.0
        self._failure: ChoraleError = ServiceUnavailable(
            "no sweeper process has replied; is `chorale sweeper` running?"
        )
        self._send_if_due()

    @redis_errors_translated()
    def result(self, *, for_s: float | None = None) -> Any:
        """Raises NoSuchJob, WrongJobState, InvalidJob; QueueFull and ServiceUnavailable after `for_s` seconds, by default REPLY_S."""
        ends_at_s = time.monotonic() + (REPLY_S if for_s is None else for_s)
        while True:
            self._send_if_due()
            reply = self._reply()
            if reply is not None and reply.get("error") != "unavailable":
                return _result(reply)
            if reply is not None:
                self._failure = ServiceUnavailable(reply["message"])
            if time.monotonic() > ends_at_s:
                raise self._failure

    @redis_errors_translated()
    def _send_if_due(self) -> None:
        if time.monotonic() < self._again_at_s:
            return
        self._again_at_s = 0.0
        try:
            if self._do == "add":
                size_in_redis = BYTES_A_BYTE * len(self._message)
                check_memory(
                    self._redis, JOB_COMMANDS, size_in_redis, items="lines of a job", consumers="sweeper"
                )
            with self._redis.pipeline() as trip:
                trip.lpush(JOB_COMMANDS, self._message)
                # A call that waits longer is lost: its caller has sent it again, or has given up.
                trip.pexpire(JOB_COMMANDS, round(2 * AGAIN_S * 1000))
                trip.execute()
            self._again_at_s = time.monotonic() + AGAIN_S
        except QueueFull as error:
            self._failure = error
        except TRANSIENT as error:
            self._failure = ServiceUnavailable(f"Redis does not answer: {error}")

    def _reply(self) -> dict[str, Any] | None:
        """The reply; None if there is none for a moment, or Redis does not answer."""
        try:
            reply: Any = self._redis.blpop([JOB_REPLY + self._caller], timeout=self._poll_s)
        except TRANSIENT as error:
            self._failure = ServiceUnavailable(f"Redis does not answer: {error}")
            time.sleep(self._poll_s)
            return None
        return None if reply is None else from_json(reply[1])


def _result(reply: dict[str, Any]) -> Any:
    if "error" not in reply:
        return reply["result"]
    raise FROM_WIRE.get(reply["error"], ServiceUnavailable)(reply["message"])
