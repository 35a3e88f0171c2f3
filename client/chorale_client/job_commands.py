"""Commands about bulk jobs, from a caller that has Redis to the sweeper process, which has the database.

A command is JSON on a Redis list, and its reply on a list of the caller's own, whatever the broker is.  A command without
a reply is sent again, so every command may be done twice.
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
    NoRoom,
    NoSuchJob,
    ServiceUnavailable,
    WrongJobState,
)
from chorale_client.keys import JOB_COMMANDS, JOB_REPLY
from chorale_client.sans_io import PASSING, redis_errors_translated
from chorale_client.wire_names import WIRE_VERSION

WINDOW = 4
"""Maximum number of commands without a reply; it bounds how much of a submission is in Redis."""
AGAIN_S = 10.0
"""A command without a reply is sent again after this time."""
LOOK_S = 1.0
"""Pause before another attempt, and longest wait of one BLPOP, which is shorter than a socket's timeout."""
BYTES_A_BYTE = 2
"""Redis holds a command twice while it is written."""
FROM_WIRE: dict[str, type[ChoraleError]] = {
    "no_such_job": NoSuchJob,
    "wrong_job_state": WrongJobState,
    "invalid_job": InvalidJob,
}


class Commands:
    """Sends commands, several at once, and reads their replies.  For one thread."""

    def __init__(self, redis: Redis, *, socket_timeout_s: float) -> None:
        self._redis = redis
        self._look_s = min(LOOK_S, socket_timeout_s / 2)
        self._caller = uuid.uuid4().hex
        self._number = 0
        self._open: dict[int, bytes] = {}
        """The commands without a reply, by number."""
        self._why = ""

    @redis_errors_translated()
    def ask(self, do: str, *, for_s: float, **arguments: Any) -> Any:
        """Send a command after the replies to those before it, and return its result.

        Raises NoSuchJob, WrongJobState, InvalidJob; ServiceUnavailable after `for_s` seconds.
        """
        ends_at_s = time.monotonic() + for_s
        while self._open:
            self._receive(ends_at_s)
        self._send(do, arguments)
        return self._receive(ends_at_s)

    @redis_errors_translated()
    def send(self, do: str, *, for_s: float, **arguments: Any) -> None:
        """Send a command as soon as there are few enough without a reply, and Redis has room for it.

        Raises errors of earlier commands, and NoRoom.
        """
        ends_at_s = time.monotonic() + for_s
        while len(self._open) >= WINDOW:
            self._receive(ends_at_s)
        self._send(do, arguments, room_until_s=ends_at_s)

    def _send(self, do: str, arguments: dict[str, Any], *, room_until_s: float | None = None) -> None:
        self._number += 1
        head = {"v": WIRE_VERSION, "do": do, "caller": self._caller, "number": self._number}
        command = to_json({**head, "given": arguments})
        if room_until_s is not None:
            self._wait_for_room(len(command), room_until_s)
        self._open[self._number] = command
        self._push([command])

    def _push(self, commands: list[bytes]) -> None:
        """Does not raise if Redis is away: `_receive` pushes again."""
        try:
            with self._redis.pipeline() as trip:
                trip.lpush(JOB_COMMANDS, *commands)
                # A command that waits longer is lost: its caller has sent it again, or has given up.
                trip.pexpire(JOB_COMMANDS, round(2 * AGAIN_S * 1000))
                trip.execute()
        except PASSING:
            time.sleep(self._look_s)

    def _wait_for_room(self, size: int, until_s: float) -> None:
        while True:
            try:
                size_in_redis = BYTES_A_BYTE * size
                check_memory(self._redis, JOB_COMMANDS, size_in_redis, of="lines of a job", whom="sweeper")
                return
            except (NoRoom, *PASSING):
                if time.monotonic() > until_s:
                    raise
            time.sleep(self._look_s)

    def _receive(self, until_s: float) -> Any:
        """The result of one open command."""
        self._why = "no sweeper process has replied; is `chorale sweeper` running?"
        again_at_s = time.monotonic() + AGAIN_S
        while True:
            reply = self._reply()
            # The first of two replies counts.
            if reply is not None and reply["number"] in self._open:
                if reply.get("error") != "unavailable":
                    del self._open[reply["number"]]
                    return _result(reply)
                self._why = reply["message"]
            now_s = time.monotonic()
            if now_s > until_s:
                raise ServiceUnavailable(self._why)
            if now_s > again_at_s:
                self._push(list(self._open.values()))
                again_at_s = now_s + AGAIN_S

    def _reply(self) -> dict[str, Any] | None:
        """The next reply; None if there is none for a moment, or Redis does not answer."""
        try:
            reply: Any = self._redis.blpop([JOB_REPLY + self._caller], timeout=self._look_s)
        except PASSING as error:
            self._why = f"Redis does not answer: {error}"
            time.sleep(self._look_s)
            return None
        return None if reply is None else from_json(reply[1])


def _result(reply: dict[str, Any]) -> Any:
    if "error" not in reply:
        return reply["result"]
    raise FROM_WIRE.get(reply["error"], ServiceUnavailable)(reply["message"])
