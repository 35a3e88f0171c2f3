"""The ledger in Redis: who is expected, who has answered, and the first terminal write, which wins.

One Lua script for each step (`scripts/*.lua`).  `chorale_client.keys` lists every key; docs/reference/ledger.md explains the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from chorale_client.keys import GENERATION, QUARANTINE, SWEEPER, WAKEUPS, entry_key
from chorale_client.ledger import Accepted, CallersLedger
from chorale_client.request import Request
from chorale_client.scripts import PRELUDE
from redis import Redis

from ledger import ledger_scripts
from ledger.protocol import (
    Action,
    Chord,
    End,
    Entry,
    PlanOutcome,
    QueueMessage,
    ReportOutcome,
    Snapshot,
    Started,
    Sweep,
)
from ledger.signing import Signer
from models.branch_result import BranchResult, sent


class RedisLedger:
    """Each method is one round trip, may be called twice without harm, and raises RedisError.

    The Redis client must not decode responses.  `queues` are the queues of the pipeline's branches by branch: the sweeper
    sends parts of these branches again.  Tests give another `prelude` to bring another clock.
    """

    def __init__(
        self,
        client: Redis,
        *,
        signer: Signer | None = None,
        queues: Mapping[str, str] | None = None,
        prelude: str = PRELUDE,
    ) -> None:
        self._client = client
        self._signer = signer or Signer(client)
        self._queues = queues or {}
        self._run = ledger_scripts(client, prelude=prelude).run

    def load(self, request_id: str) -> Entry | None:
        """The entry of a request in flight; None if there is none, or if it is malformed."""
        fields = cast("dict[bytes, bytes]", self._client.hgetall(entry_key(request_id)))
        try:
            return _entry(request_id, fields)
        except (KeyError, ValueError):
            return None  # nothing; or a malformed entry, which the sweeper sets aside

    def planned(self, request_id: str) -> bytes | None:
        """The plan of a request in flight; None if there is none."""
        return cast("bytes | None", self._client.hget(entry_key(request_id), "plan"))

    def plan(self, request_id: str, chord: Chord) -> PlanOutcome:
        """Write the plan, and push the messages that the parts carry.  A second planner gets `known`."""
        answer = self._run("plan", [entry_key(request_id), WAKEUPS], self._plan_args(request_id, chord))
        return cast(PlanOutcome, answer[0].decode())

    def submit(
        self, callers: CallersLedger, request: Request, chord: Chord, generation: int, cached: Sequence[str]
    ) -> tuple[Accepted, PlanOutcome | None, Sequence[bytes | None]]:
        """`CallersLedger.accept`, and `plan` in the same step if the corpus has this generation and none of the keys
        `cached` exists.  Returns the values of these keys if one does.  Raises RequestIdConflict."""
        planned: list[Any] = []
        plan_args = self._plan_args(request.request_id, chord)

        def run(keys: Sequence[Any], args: Sequence[Any]) -> Any:
            all_keys = [*keys, GENERATION + request.namespace, *cached]
            all_args = [*args, generation, *plan_args]
            accepted, *planned[:] = self._run("submit", all_keys, all_args)
            return accepted

        accepted = callers.accept(request, run=run)
        outcome, *cached_values = planned
        return accepted, outcome and cast(PlanOutcome, outcome[0].decode()), tuple(cached_values)

    def start(self, request_id: str, branch: str) -> Started | None:
        """None if nobody waits for this branch any more."""
        return self._started(self._run("start_one", [entry_key(request_id)], [branch]))

    def take(self, *, first: tuple[str, str, str] | None, most: Mapping[str, int]) -> list[QueueMessage]:
        """Start or join `first` (queue, task and task id of a message in hand; None if a token of `READY` has woken the worker),
        then pop up to `most` messages of each queue and start or join them too.

        A part that was sent again is taken alone, because it may be the one that ended its worker.  A message of Celery stays
        at the head of its queue.
        """
        flat = self._run("take", list(most), [*(first or ("", "", "")), *most.values()])
        return [self._queue_message(*message) for message in flat]

    def report_all(
        self, reports: Sequence[tuple[str, BranchResult, Started | None, bytes]]
    ) -> list[ReportOutcome]:
        """Take the answers and failures of branches, each with its request id, what it was started with, and callback.

        The first answer of a branch wins, and it replaces a failure.  The last report of a request pushes the callback, or
        returns `due` if there is none.  A report for an earlier request with the same id returns `closed`.  Failures reported by
        Celery, and by foreign tasks, carry no start token, so their age cannot be checked.
        """
        outcomes, *_ = self._report(reports, joins=False)
        return [cast(ReportOutcome, outcome.decode()) for outcome in outcomes]

    def report_and_join(self, reports: Sequence[tuple[str, BranchResult, Started | None]]) -> list[Snapshot]:
        """`report_all` without callbacks, and `join` in the same step for the requests that are complete with it."""
        _, joined, reported = self._report([(*report, b"") for report in reports], joins=True)
        return [snapshot for answer in joined if (snapshot := self._joined(answer, reported)) is not None]

    def _report(
        self, reports: Sequence[tuple[str, BranchResult, Started | None, bytes]], *, joins: bool
    ) -> Any:
        args: list[Any] = ["1" if joins else ""]
        reported: dict[tuple[str, str], BranchResult] = {}
        plans = self._plans_of([request_id for request_id, _, started, _ in reports if started is None])
        for request_id, result, started, callback in reports:
            result, wire = sent(result)
            reported[request_id, result.branch] = result
            plan = plans[request_id] if started is None else started.mac
            mac = self._signer.sign(*_signed_branch_result(request_id, plan, result.branch, wire))
            args += [request_id, result.branch, str(result.status), wire, result.attempt]
            args += ["" if started is None else started.accepted_at_ms, callback, mac]
        return (*self._run("report_all", args=args), reported)

    def join(self, request_id: str, *, force: bool = False) -> Snapshot | None:
        """A frozen snapshot; None if it is too early, another fusion took the request, or the request has ended."""
        keys = [entry_key(request_id), WAKEUPS]
        return self._joined(self._run("join_one", keys, [request_id, "force" if force else ""]))

    def finish_all(self, ends: Sequence[End], *, by: str) -> list[tuple[int | None, Any]]:
        """The terminal writes.  For each: milliseconds since acceptance if it was its request's first, otherwise None; and
        the breaker transitions (`ledger.breakers.read_transitions` reads them).  Only the first end counts outcomes."""
        args: list[Any] = []
        for end in ends:
            unreported: list[Any] = [end.accepted_at_ms] if end.unreported else []
            for result in end.unreported:
                unreported += [result.branch, result.status, result.wire]
            args += [7 + len(unreported), len(end.outcomes), end.request_id, by, end.body]
            args += ["1" if end.is_complete else "0", end.coalescing_key or "", end.completed, end.plan]
            args += [*unreported, *end.outcomes]
        answers = self._run("finish_all", args=args)
        return [(None if took_ms is None else int(took_ms), turned) for took_ms, turned in answers]

    def call_fusion(self, callback: bytes) -> None:
        """Push a callback again.  A full Redis takes it too."""
        self._run("call_fusion", args=[callback])

    def hasten(self, request_id: str) -> None:
        """Let the sweeper act now, since the callback failed."""
        self._run("hasten", [entry_key(request_id), WAKEUPS], [request_id])

    def sweep(self, sweeper: str, *, most: int = 64) -> Sweep:
        """The actions that are due in at most `most` requests, which are leased to this sweeper."""
        queues = [word for pair in self._queues.items() for word in pair]
        first, *actions = self._run("sweep", [WAKEUPS, SWEEPER, QUARANTINE], [sweeper, most, *queues])
        if int(first) == -2:
            return Sweep((), int(actions[0]), is_acting=False)
        return Sweep(
            tuple(Action(*(word.decode(errors="replace") for word in action)) for action in actions),
            None if int(first) < 0 else int(first),
            is_acting=True,
        )

    def _plan_args(self, request_id: str, chord: Chord) -> list[Any]:
        latest_ms = max((part.limit_ms for part in chord.parts), default=0)
        key = chord.coalescing_key or ""
        mac = self._signer.sign(*_signed_plan(request_id, chord.request, key.encode(), chord.plan))
        args: list[Any] = [request_id, chord.plan, latest_ms]
        args += [chord.finish_reserve_ms, chord.fusion_reserve_ms, key, mac]
        for part in chord.parts:
            hedge: int | str = "" if part.hedge_after_ms is None else part.hedge_after_ms
            args += [part.branch, part.queue, part.limit_ms, part.resend_after_ms, hedge]
            args += [part.lease_ms, "1" if part.is_decisive else "", part.message]
        return args

    def _plans_of(self, request_ids: Sequence[str]) -> dict[str, bytes]:
        """The signatures of the plans of requests in flight."""
        trip = self._client.pipeline(transaction=False)
        for request_id in request_ids:
            trip.hget(entry_key(request_id), "mac")
        macs = trip.execute(raise_on_error=False) if request_ids else []
        return {
            request_id: mac if isinstance(mac, bytes) else b""
            for request_id, mac in zip(request_ids, macs, strict=True)
        }

    def _queue_message(self, queue: bytes, message: bytes, answer: Any) -> QueueMessage:
        name = queue.decode(errors="replace")
        if answer and isinstance(answer[0], bytes):
            return QueueMessage(name, message, True, joined=self._joined(answer))
        return QueueMessage(name, message, answer is not None, started=self._started(answer))

    def _started(self, answer: Any) -> Started | None:
        if not answer:
            return None
        remaining_ms, request, plan, since_accepted_ms, accepted_at_ms, *about = answer
        coalescing_key, mac, request_id, deadline_ms, again = about
        request, plan, mac = request or b"", plan or b"", mac or b""
        is_signed = self._signer.verifies(
            mac, *_signed_plan(request_id.decode(), request, coalescing_key or b"", plan)
        )
        try:
            times = int(remaining_ms), int(since_accepted_ms), int(accepted_at_ms), int(deadline_ms)
        except (ValueError, TypeError):
            return None  # a malformed entry, which the sweeper sets aside
        return Started(
            times[0],
            request,
            plan,
            *times[1:3],
            mac,
            is_signed,
            deadline_ms=times[3],
            coalescing_key=_text(coalescing_key),
            is_sent_again=again != b"",
        )

    def _joined(
        self, answer: Any, reported: Mapping[tuple[str, str], BranchResult] = MappingProxyType({})
    ) -> Snapshot | None:
        """What this process has just reported is neither sent back, nor verified or read again."""
        if not answer or answer[0] != b"joined":
            return None
        _, now_ms, state_before, raw_id, flat, *own_branches = answer
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        request_id, mac = raw_id.decode(), fields.get(b"mac", b"")
        try:
            entry = _entry(request_id, fields | {b"state": state_before})
        except (KeyError, ValueError):
            return None  # a malformed entry, which the sweeper sets aside
        planned = _signed_plan(
            request_id, entry.request, fields.get(b"coalescing_key", b""), entry.plan or b""
        )
        names = [name.decode() for names in own_branches for name in names]
        own = {branch: reported[request_id, branch] for branch in names}
        forged = {
            branch
            for branch, wire in entry.branch_results.items()
            if not self._signer.verifies(
                fields.get(b"mac:" + branch.encode()), *_signed_branch_result(request_id, mac, branch, wire)
            )
        }
        is_signed = entry.plan is None or self._signer.verifies(mac, *planned)
        return entry.at(int(now_ms), is_signed=is_signed, forged=frozenset(forged), reported=own)


def _signed_plan(request_id: str, request: bytes, coalescing_key: bytes, plan: bytes) -> tuple[bytes, ...]:
    """What the signature of a plan covers."""
    return b"plan", request_id.encode(), request, coalescing_key, plan


def _signed_branch_result(request_id: str, plan: bytes, branch: str, wire: bytes) -> tuple[bytes, ...]:
    """What the signature of a branch result covers; `plan` is the signature of the plan."""
    return b"result", request_id.encode(), plan, branch.encode(), wire


def _entry(request_id: str, fields: Mapping[bytes, bytes]) -> Entry:
    branch_results = {}
    moments: dict[str, dict[str, int]] = {"started": {}, "again": {}}
    for field, value in fields.items():
        name, _, branch = field.decode(errors="replace").partition(":")
        if name == "result":
            branch_results[branch] = value
        elif name in moments and value.isdigit():
            moments[name][branch] = int(value)
    return Entry(
        request_id=request_id,
        state=fields[b"state"].decode(errors="replace"),
        request=fields[b"request"],
        plan=fields.get(b"plan"),
        branch_results=branch_results,
        started=moments["started"],
        sent_again=moments["again"],
        decided_by=_text(fields.get(b"decided")),
        accepted_at_ms=int(fields[b"accepted_at"]),
        deadline_ms=int(fields[b"deadline"]),
        coalescing_key=_text(fields.get(b"coalescing_key")),
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
