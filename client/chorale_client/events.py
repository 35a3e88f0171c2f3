"""The events of a request, as the ledger shows them: what a progress bar, or a stream of server-sent events, needs.

A reader looks at the ledger now and then, and hears of the end at once.  So two readers may see the branches in another
order, and an event of a short step may come together with the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from chorale_client.answer import Answer
from chorale_client.coverage import coverage_of
from chorale_client.errors import UnknownRequest
from chorale_client.keys import entry_key, result_key
from chorale_client.ledger import status_in_flight
from chorale_client.sans_io import Exchange, Script, read_answer
from chorale_client.wire_names import Stage, Status

EventStage = Literal["accepted", "following", "planned", "branch", "fusing", "ended"]

_ORDER = ("", "accepted", "following", "planned", "fusing", "ended")
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a request."""

    id: str
    """What a reader has seen with this event.  `events(after=id)` goes on with the next one, from any process."""
    stage: EventStage
    """`following`: an equal question is being answered, and this request gets its answer; `branch`: a branch has answered
    or failed."""
    branch: str = ""
    status: str = ""
    """The branch's: `ok`, `empty`, `failed`, or the reason why it is missing from the answer.  With `ended`: the answer's."""
    answer: Answer | None = None
    """The answer, with `ended`."""

    def to_wire(self) -> dict[str, str]:
        """The event without its id and its answer, in plain JSON values."""
        fields = {"stage": self.stage, "branch": self.branch, "status": self.status}
        return {name: value for name, value in fields.items() if value}


OnEvent = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a request in flight is."""

    status: Status
    """`accepted` or `running`."""
    branches: Mapping[str, str]
    """By branch `ok`, `empty`, `failed`, or `running` until it answers; empty before the plan."""


def standing(request_id: str) -> Exchange[Standing | None]:
    """None if the request has ended, or is unknown."""
    (reply,) = yield [Script("progress", [entry_key(request_id), result_key(request_id)], [])]
    if reply is None or reply[0] == b"ended":
        return None
    state, *words = (word.decode() for word in reply)
    branches = zip(words[::2], words[1::2], strict=True)
    return Standing(
        status_in_flight(state), {branch: status or Status.RUNNING for branch, status in sorted(branches)}
    )


class Progress:
    """One reader of a request's events."""

    def __init__(self, request_id: str, after: str = "") -> None:
        """`after` is the id of the last event that the reader has; a text that is no id starts from the first event."""
        state, *branches = after.split(",")
        self._request_id = request_id
        self._state = state if state in _ORDER else ""
        self._reported = [branch for branch in branches if self._state]
        self._pause_s = _FIRST_PAUSE_S

    @property
    def is_over(self) -> bool:
        """Whether the reader has the last event."""
        return self._state == "ended"

    def pause_s(self) -> float:
        """How long to wait for the end before the next look."""
        pause_s = self._pause_s
        self._pause_s = min(_LONGEST_PAUSE_S, 1.5 * pause_s)
        return pause_s

    def poll(self) -> Exchange[list[Event]]:
        """The events since the last look.  Raises UnknownRequest."""
        if self.is_over:
            return []
        request_id = self._request_id
        (reply,) = yield [Script("progress", [entry_key(request_id), result_key(request_id)], [])]
        if reply is None:
            raise UnknownRequest(request_id)
        state = reply[0].decode()
        if state == "ended":
            return list(self._ended(read_answer(request_id, cast("bytes", reply[1]))))
        words = [word.decode() for word in reply[1:]]
        return list(self._until(state, dict(zip(words[::2], words[1::2], strict=True))))

    def _ended(self, answer: Answer) -> Iterator[Event]:
        if answer.status != Status.REFUSED:
            has_fused = any(line.stage == Stage.FUSE for line in answer.stages)
            branches = coverage_of(answer)["branches"]
            state = "fusing" if has_fused else "planned" if branches else "accepted"
            yield from self._until(state, branches)
        yield self._event("ended", status=answer.status, answer=answer)

    def _until(self, state: str, branches: Mapping[str, str]) -> Iterator[Event]:
        """`branches`: the status of each branch, empty while there is none."""
        if not self._state:
            yield self._event("accepted")
        if state == "following" and self._is_before("following"):
            yield self._event("following")
        if branches and self._is_before("planned"):
            yield self._event("planned")
        for branch, status in sorted(branches.items()):
            if status and branch not in self._reported:
                self._reported.append(branch)
                yield self._event("branch", branch=branch, status=status)
        if state == "fusing" and self._is_before("fusing"):
            yield self._event("fusing")

    def _is_before(self, state: str) -> bool:
        return _ORDER.index(self._state) < _ORDER.index(state)

    def _event(self, stage: EventStage, **fields: Any) -> Event:
        if stage != "branch":
            self._state = stage
        return Event(",".join([self._state, *self._reported]), stage, **fields)
