"""Drives the scripts through random steps, and notes what the promises are checked against."""

from __future__ import annotations

from contextlib import suppress

from chorale_client import RequestIdConflict
from chorale_client.ledger import Accepted
from chorale_client.protocol_constants import PROTOCOL, ProtocolConstants
from redis import Redis

from ledger.protocol import Action, Chord, Part
from models.envelope import Envelope
from tests.support.ledger.ledger_plans import Planned, a_request, plan_of, reserves_ms, tail
from tests.support.ledger.ledger_promises import Promises
from tests.support.ledger.stepped_ledger import ANSWER, SteppedLedger, View


class LedgerSteps:
    def __init__(self, client: Redis, constants: ProtocolConstants = PROTOCOL) -> None:
        self.constants = constants
        self.stepped = SteppedLedger(client, constants)
        self.promises = Promises(constants)
        self.lean: dict[str, bool] = {}
        """By id, whether its reports bring the callback."""

    def check(self, *, is_swept: bool) -> None:
        """Checks that the ledger's promises hold.  `is_swept`: a sweeper was always alive."""
        self.promises.hold(self.stepped.view(), self.stepped.now_ms(), is_swept=is_swept)

    def pick(self, nth: int, *, state: str | None = None) -> str:
        """Returns a request in this state if there is one, else one that is in flight, ended or unknown."""
        entries = self.stepped.view().entries
        choice = sorted(request_id for request_id, entry in entries.items() if entry.state == state)
        if not choice:
            ended = [fields[b"id"].decode() for fields in self.stepped.outbox()[-2:]]
            choice = [*sorted(entries), *ended, "unknown"]
        return choice[nth % len(choice)]

    def new_id(self, letter: str) -> str:
        # The letter comes first: requests with the same moment are swept in the order of their ids.
        return f"{letter}{sum(self.promises.ends_due.values())}"

    def accept(
        self, request_id: str, timeout_s: float, *, top_k: int = 5, is_overloaded: bool = False
    ) -> None:
        self.stepped.overload(1_500 if is_overloaded else None)
        with suppress(RequestIdConflict):
            self._expect(self.stepped.callers.accept(a_request(request_id, timeout_s, top_k)))

    def _expect(self, accepted: Accepted) -> None:
        if accepted.is_new:
            self.promises.expect(accepted.request_id, accepted)
        elif accepted.state == "refused":
            self.promises.ends_due[accepted.request_id] += 1

    def plan(self, request_id: str, plan: Planned) -> str:
        entry = self.stepped.ledger.load(request_id)
        timeout_ms = entry.deadline_ms - entry.accepted_at_ms if entry else 1_000
        chord = self._chord(request_id, plan, timeout_ms)
        outcome = self.stepped.ledger.plan(request_id, chord)
        self.promises.followed[request_id] += outcome == "follows"
        return outcome

    def submit(
        self,
        request_id: str,
        timeout_s: float,
        plan: Planned,
        *,
        is_overloaded: bool,
        generation: int | None,
        cached: bytes | None,
    ) -> str | None:
        """The corpus has this generation, and the cache this answer; the plan is for generation 7."""
        request, chord = (
            a_request(request_id, timeout_s),
            self._chord(request_id, plan, round(1000 * timeout_s)),
        )

        stepped = self.stepped
        stepped.overload(1_500 if is_overloaded else None)
        stepped.know(generation, cached)
        try:
            submitted = stepped.ledger.submit(stepped.callers, request, chord, 7, [ANSWER])
        except RequestIdConflict:
            return None
        finally:
            stepped.know(None, None)
        accepted, outcome, _ = submitted
        self._expect(accepted)
        self.promises.followed[request_id] += outcome == "follows"
        return outcome

    def _chord(self, request_id: str, plan: Planned, timeout_ms: int) -> Chord:
        finish_ms, fusion_ms = reserves_ms(timeout_ms)
        self.lean[request_id] = plan.is_lean

        def message(text: str) -> bytes:
            return text.encode() if plan.is_lean else b""

        parts = [
            Part(
                name,
                f"queue.{name}",
                plan.limit_ms,
                plan.resend_ms,
                message(f"part {request_id} {name} 1"),
                plan.hedge_ms,
                name in plan.decisive,
                plan.lease_ms,
            )
            for name in sorted(plan.branches)
        ]
        return Chord(plan_of(parts), parts, finish_ms, fusion_ms, plan.flight)

    def start(self, request_id: str, branch: str) -> bool:
        return self.stepped.ledger.start(request_id, branch) is not None

    def report(
        self,
        request_id: str,
        branch: str,
        status: str,
        *,
        detail: str = "",
        attempt: int = 1,
        accepted_at_ms: int | None = None,
    ) -> None:
        envelope = Envelope(branch, status, detail=detail, attempt=attempt)
        outcome = self.stepped.ledger.report(
            request_id,
            branch,
            envelope,
            accepted_at_ms=accepted_at_ms,
            callback=f"fuse {request_id}".encode() if self.lean.get(request_id) else b"",
        )
        if outcome == "due":
            self._call_fusion(request_id)
        if outcome in ("counted", "waits", "joined", "due", "replaced"):
            self.promises.reported[request_id][branch] = envelope.to_wire()

    def _call_fusion(self, request_id: str) -> None:
        self.stepped.ledger.call_fusion(f"fuse {request_id}".encode())

    def join(self, request_id: str, *, force: bool) -> bool:
        return self.stepped.ledger.join(request_id, force=force) is not None

    def finish(self, request_id: str, status: str, *, by: str) -> None:
        self.stepped.ledger.finish(request_id, by=by, tail=tail(status), is_complete=status == "complete")

    def cancel(self, request_id: str) -> None:
        self.stepped.callers.cancel(request_id)
        assert self.stepped.callers.state(request_id) is None

    def sweep(self, sweeper: str, most: int = 64, done: int = 64) -> int | None:
        """A sweeper does the first `done` of its actions.  Returns the milliseconds until the next moment."""
        found = self.stepped.ledger.sweep(sweeper, most=most)
        for action in found.actions:
            self.promises.count(action)
        for action in found.actions[:done]:
            self._act(action)
        return found.next_in_ms

    def _act(self, action: Action) -> None:
        messages = {
            "retrieve": ("queue.retrieve", f"retrieve {action.request_id}"),
            "part": (f"queue.{action.branch}", f"part {action.request_id} {action.branch} 1"),
            "hedge": (f"queue.{action.branch}", f"part {action.request_id} {action.branch} 2"),
        }
        if action.do in messages:
            queue, message = messages[action.do]
            self.stepped.push(queue, message.encode())
        elif action.do == "fuse":
            self._call_fusion(action.request_id)
        elif action.do == "plan":
            self.plan(action.request_id, Planned({"bm25", "vector"}, 300, 50, None, False))
        elif action.do == "end" and self.join(action.request_id, force=True):
            self.finish(action.request_id, "degraded", by="sweeper")

    def pass_time(self, ms: int, *, is_swept: bool) -> None:
        until = self.stepped.now_ms() + ms
        while (left_ms := until - self.stepped.now_ms()) > 0:
            step_ms = left_ms
            if is_swept:
                next_ms = self.sweep("the living")
                if next_ms is not None:
                    step_ms = min(left_ms, next_ms)
            self.stepped.step(step_ms)

    def ended(self, view: View) -> set[str]:
        """Returns the ids whose last request has ended."""
        is_of = self.promises.is_of
        return {one for fields in view.outbox if is_of(one := fields[b"id"].decode(), fields)}
