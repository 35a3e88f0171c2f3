"""The ledger in Redis: who is expected, who has answered, and the first terminal write, which wins.

One Lua script for each step (`scripts/*.lua`).  `chorale_client.keys` lists every key; docs/reference/ledger.md explains the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from chorale_client.keys import MOMENTS, SWEEPER, entry_key
from chorale_client.scripts import PRELUDE
from redis import Redis

from ledger.lua import ledger_scripts
from ledger.protocol import (
    Action,
    Callback,
    Entry,
    Part,
    PlanOutcome,
    ReportOutcome,
    Snapshot,
    Started,
    Sweep,
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

    def plan(
        self,
        request_id: str,
        plan: bytes,
        parts: Sequence[Part],
        callback: Callback,
        *,
        finish_reserve_ms: int,
        fusion_reserve_ms: int,
        flight: str | None = None,
    ) -> PlanOutcome:
        """Write the plan, and push the messages that the parts and the callback carry.  A second planner gets `known`."""
        latest_ms = max((part.limit_ms for part in parts), default=0)
        args: list[Any] = [request_id, plan, latest_ms, finish_reserve_ms, fusion_reserve_ms, flight or ""]
        args += [callback.queue, callback.message]
        for part in parts:
            hedge: int | str = "" if part.hedge_after_ms is None else part.hedge_after_ms
            args += [part.branch, part.queue, part.limit_ms, part.resend_after_ms, hedge]
            args += ["1" if part.is_decisive else "", part.message]
        answer = self._run("plan", [entry_key(request_id), MOMENTS], args)
        return cast(PlanOutcome, answer[0].decode())

    def start(self, request_id: str, branch: str) -> Started | None:
        """None if nobody waits for this branch any more."""
        answer = self._run("start", [entry_key(request_id)], [branch])
        if not answer:
            return None
        left_ms, request, plan, since_accepted_ms, accepted_at_ms = answer
        return Started(int(left_ms), request, plan, int(since_accepted_ms), int(accepted_at_ms))

    def report(
        self, request_id: str, branch: str, envelope: Envelope, *, accepted_at_ms: int | None = None
    ) -> ReportOutcome:
        """Take an answer or a failure.  The first answer wins, and it replaces a failure.

        `accepted_at_ms` belongs to the request that the branch worked for, where that is known: a report for an earlier
        request with the same id returns `closed`.
        """
        args: list[Any] = [request_id, branch, str(envelope.status), envelope.to_wire(), envelope.attempt]
        args.append("" if accepted_at_ms is None else accepted_at_ms)
        answer = self._run("report", [entry_key(request_id), MOMENTS], args)
        return cast(ReportOutcome, answer.decode())

    def join(self, request_id: str, *, force: bool = False) -> Snapshot | None:
        """A frozen snapshot; None if it is too early, another fusion took the request, or the request has ended."""
        keys = [entry_key(request_id), MOMENTS]
        answer = self._run("join", keys, [request_id, "force" if force else ""])
        if answer[0] != b"joined":
            return None
        now_ms, state_before, flat = int(answer[1]), answer[2], answer[3]
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        return _entry(request_id, fields | {b"state": state_before}).at(now_ms)

    def finish(self, request_id: str, *, by: str, tail: str, is_complete: bool) -> int | None:
        """The terminal write.  Milliseconds since acceptance for the call that wins, None for all others."""
        args = [request_id, by, tail, "1" if is_complete else "0"]
        answer = self._run("finish", [entry_key(request_id)], args)
        return None if answer is None else int(answer)

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
