"""The ledger in Redis: who is expected, who has answered, and the first terminal write, which wins.

One Lua script for each step (`scripts/*.lua`).  `chorale_client.keys` lists every key; docs/reference/ledger.md explains the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from chorale_client.keys import GENERATION, MOMENTS, SWEEPER, entry_key
from chorale_client.ledger import Accepted, CallersLedger
from chorale_client.request import Request
from chorale_client.scripts import PRELUDE
from redis import Redis

from ledger.lua import ledger_scripts
from ledger.protocol import (
    Action,
    Chord,
    End,
    Entry,
    PlanOutcome,
    ReportOutcome,
    Snapshot,
    Started,
    Sweep,
    Taken,
)
from models.envelope import Envelope


class RedisLedger:
    """Each method is one round trip, may be called twice without harm, and raises RedisError.

    The Redis client must not decode responses.  Tests give another `prelude` to bring another clock.
    """

    def __init__(self, client: Redis, *, prelude: str = PRELUDE) -> None:
        self._client = client
        self._run = ledger_scripts(client, prelude=prelude).run

    def load(self, request_id: str) -> Entry | None:
        """The entry of a request in flight; None if there is none."""
        fields = cast("dict[bytes, bytes]", self._client.hgetall(entry_key(request_id)))
        return _entry(request_id, fields) if fields else None

    def plan(self, request_id: str, chord: Chord) -> PlanOutcome:
        """Write the plan, and push the messages that the parts carry.  A second planner gets `known`."""
        answer = self._run("plan", [entry_key(request_id), MOMENTS], _plan_args(request_id, chord))
        return cast(PlanOutcome, answer[0].decode())

    def submit(
        self, callers: CallersLedger, request: Request, chord: Chord, generation: int, cached: Sequence[str]
    ) -> tuple[Accepted, PlanOutcome | None, Sequence[bytes | None]]:
        """`CallersLedger.accept`, and `plan` in the same step if the corpus has this generation and none of the keys
        `cached` exists.  Returns the values of these keys if one does.  Raises RequestIdConflict."""
        planned: list[Any] = []

        def run(keys: Sequence[Any], args: Sequence[Any]) -> Any:
            all_keys = [*keys, GENERATION + request.namespace, *cached]
            all_args = [*args, generation, *_plan_args(request.request_id, chord)]
            accepted, *planned[:] = self._run("submit", all_keys, all_args)
            return accepted

        accepted = callers.accept(request, run=run)
        outcome, *found = planned
        return accepted, outcome and cast(PlanOutcome, outcome[0].decode()), tuple(found)

    def start(self, request_id: str, branch: str) -> Started | None:
        """None if nobody waits for this branch any more."""
        return _started(self._run("start", [entry_key(request_id)], [branch]))

    def take(self, *, first: tuple[str, str, str], most: Mapping[str, int]) -> list[Taken]:
        """Start or join `first` (queue, task and task id of a message in hand), then pop up to `most` messages of each queue
        and start or join them too.

        A part that was sent again is taken alone, because it may be the one that ended its worker.
        """
        flat = self._run("take", list(most), [*first, *most.values()])
        return [_taken(*one) for one in flat]

    def report(
        self,
        request_id: str,
        branch: str,
        envelope: Envelope,
        *,
        accepted_at_ms: int | None = None,
        callback: bytes = b"",
    ) -> ReportOutcome:
        """Take an answer or a failure.  The first answer wins, and it replaces a failure.  The last report pushes the
        callback, or returns `due` if there is none.

        `accepted_at_ms` belongs to the request that the branch worked for, where that is known: a report for an earlier
        request with the same id returns `closed`.
        """
        args = _report_args(request_id, branch, envelope, accepted_at_ms, callback)
        answer = self._run("report", [entry_key(request_id), MOMENTS], args)
        return cast(ReportOutcome, answer.decode())

    def report_all(self, reports: Sequence[tuple[str, Envelope, int, bytes]]) -> list[ReportOutcome]:
        """`report` for each request id, envelope, `accepted_at_ms` and callback."""
        args = [arg for id_, one, at, call in reports for arg in _report_args(id_, one.branch, one, at, call)]
        return [cast(ReportOutcome, outcome.decode()) for outcome in self._run("report_all", args=args)]

    def join(self, request_id: str, *, force: bool = False) -> Snapshot | None:
        """A frozen snapshot; None if it is too early, another fusion took the request, or the request has ended."""
        keys = [entry_key(request_id), MOMENTS]
        return _joined(self._run("join", keys, [request_id, "force" if force else ""]))

    def finish(self, request_id: str, *, by: str, tail: str, is_complete: bool) -> int | None:
        """The terminal write.  Milliseconds since acceptance for the call that wins, None for all others."""
        args = [request_id, by, tail, "1" if is_complete else "0"]
        answer = self._run("finish", [entry_key(request_id)], args)
        return None if answer is None else int(answer)

    def finish_all(self, ends: Sequence[End], *, by: str) -> list[tuple[int | None, Any]]:
        """`finish` for each request; where its write wins, its outcomes are counted (`ledger.breakers.turned` reads the second value)."""
        args: list[Any] = []
        for end in ends:
            args += [end.request_id, by, end.tail, "1" if end.is_complete else "0", len(end.outcomes)]
            args += end.outcomes
        answers = self._run("finish_all", args=args)
        return [(None if took_ms is None else int(took_ms), turned) for took_ms, turned in answers]

    def call_fusion(self, callback: bytes) -> None:
        """Push a callback again.  A full Redis takes it too."""
        self._run("call_fusion", args=[callback])

    def hasten(self, request_id: str) -> None:
        """Let the sweeper act now, since the callback failed."""
        self._run("hasten", [entry_key(request_id), MOMENTS], [request_id])

    def sweep(self, sweeper: str, *, most: int = 64) -> Sweep:
        """The actions that are due in at most `most` requests, which are leased to this sweeper."""
        first, *actions = self._run("sweep", [MOMENTS, SWEEPER], [sweeper, most])
        if int(first) == -2:
            return Sweep((), None, is_acting=False)
        return Sweep(
            tuple(Action(*(word.decode() for word in action)) for action in actions),
            None if int(first) < 0 else int(first),
            is_acting=True,
        )


def _plan_args(request_id: str, chord: Chord) -> list[Any]:
    latest_ms = max((part.limit_ms for part in chord.parts), default=0)
    args: list[Any] = [request_id, chord.plan, latest_ms, chord.finish_reserve_ms, chord.fusion_reserve_ms]
    args.append(chord.flight or "")
    for part in chord.parts:
        hedge: int | str = "" if part.hedge_after_ms is None else part.hedge_after_ms
        args += [part.branch, part.queue, part.limit_ms, part.resend_after_ms, hedge]
        args += [part.lease_ms, "1" if part.is_decisive else "", part.message]
    return args


def _report_args(
    request_id: str, branch: str, envelope: Envelope, accepted_at_ms: int | None, callback: bytes
) -> list[Any]:
    at_ms = "" if accepted_at_ms is None else accepted_at_ms
    return [request_id, branch, str(envelope.status), envelope.to_wire(), envelope.attempt, at_ms, callback]


def _taken(queue: bytes, message: bytes, answer: Any) -> Taken:
    if answer and isinstance(answer[0], bytes):
        return Taken(queue.decode(), message, True, joined=_joined(answer))
    return Taken(queue.decode(), message, answer is not None, started=_started(answer))


def _started(answer: Any) -> Started | None:
    if not answer:
        return None
    left_ms, request, plan, since_accepted_ms, accepted_at_ms = answer
    return Started(int(left_ms), request, plan, int(since_accepted_ms), int(accepted_at_ms))


def _joined(answer: Any) -> Snapshot | None:
    if answer[0] != b"joined":
        return None
    _, now_ms, state_before, request_id, flat = answer
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return _entry(request_id.decode(), fields | {b"state": state_before}).at(int(now_ms))


def _entry(request_id: str, fields: Mapping[bytes, bytes]) -> Entry:
    envelopes = {}
    started = set()
    for field, value in fields.items():
        name, _, branch = field.decode().partition(":")
        if name == "envelope":
            envelopes[branch] = value
        elif name == "started":
            started.add(branch)
    return Entry(
        request_id=request_id,
        state=fields[b"state"].decode(),
        request=fields[b"request"],
        plan=fields.get(b"plan"),
        envelopes=envelopes,
        started=frozenset(started),
        decided_by=fields[b"decided"].decode() if b"decided" in fields else None,
        accepted_at_ms=int(fields[b"accepted_at"]),
        deadline_ms=int(fields[b"deadline"]),
    )
