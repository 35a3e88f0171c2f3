"""The ledger's scripts through random sequences of steps (a hypothesis state machine).

The promises of the ledger have to hold after each step.  In half of the runs a sweeper is alive all the time; in the other
half sweepers come, go, and die between finding an action and doing it.  Half of the runs use `OTHER` constants.

`CHORALE_TEST_LEDGER_EXAMPLES=5000` runs more examples, new ones each time, and shrinks one that fails.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import pytest
from chorale_client import Request, RequestIdConflict, make_request
from chorale_client.keys import COALESCING, OUTBOX, OUTBOX_REFUSED, READY
from chorale_client.ledger import Accepted
from chorale_client.protocol_constants import PROTOCOL, ProtocolConstants
from chorale_client.wire_names import QUEUE_FUSION
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis import Redis

from ledger.protocol import Action
from models.branch_result import BranchResult
from tests.support.ledger.ledger_promises import Promises, reserves_ms
from tests.support.ledger.requests import chord
from tests.support.ledger.stepped_ledger import ANSWER, EXPIRIES, NOW, SteppedLedger

EXAMPLES = int(os.environ.get("CHORALE_TEST_LEDGER_EXAMPLES", "0"))
STEPS = 30
AN_HOUR_AND_A_MINUTE_MS = 3_660_000

OTHER = ProtocolConstants(
    sweeper_lease_ms=70,
    retrieves=1,
    plans=1,
    plan_every_ms=90,
    resends=1,
    resend_every_ms=300,
    fuses=2,
    fuse_every_ms=200,
    follower_every_ms=40,
    replan_share=0.25,
    shortest_fusion_ms=15,
    longest_fusion_lease_ms=400,
    longest_finish_reserve_ms=50,
    finish_reserve_percent=15,
    default_outbox_limit=12,
    brief_from_share=0.25,
)
"""No constant is the product's."""

BRANCHES = ("bm25", "hyde", "vector")
RETRIEVE = "queue.retrieve"
QUEUES = (*(f"queue.{branch}" for branch in BRANCHES), QUEUE_FUSION, RETRIEVE)

nth = st.integers(0, 5)
branches = st.sampled_from(BRANCHES)
statuses = st.sampled_from(("ok", "ok", "empty", "failed"))
attempts = st.sampled_from((1, 1, 2))
rarely = st.integers(0, 9).map(lambda number: number == 9)
timeouts_s = st.sampled_from((0.05, 0.203, 0.5, 1.0, 3.0))
plans = st.fixed_dictionaries(
    {
        "branches": st.sampled_from((("bm25",), ("bm25", "vector"), BRANCHES, ())),
        "limit_ms": st.sampled_from((0, 50, 300, 2_000)),
        "resend_ms": st.sampled_from((20, 50, 250, 1_000)),
        "coalescing_key": st.sampled_from((COALESCING + "x", COALESCING + "x", COALESCING + "y", None)),
        "is_lean": st.booleans(),
        "hedge_ms": st.sampled_from((None, None, 30, 100, 400)),
        "lease_ms": st.sampled_from((0, 0, 40, 150, 400)),
        "decisive": st.sampled_from(((), (), ("vector",), BRANCHES)),
    }
)
USUAL = {"branches": ("bm25", "vector"), "limit_ms": 300, "resend_ms": 50, "is_lean": False}

Plan = dict[str, Any]


def a_request(request_id: str, timeout_s: float, top_k: int = 5) -> Request:
    return make_request("bread", request_id=request_id, timeout_s=timeout_s, top_k=top_k)


class LedgerMachine(RuleBasedStateMachine):
    client: Redis

    @initialize(lives=st.booleans(), constants=st.sampled_from((PROTOCOL, OTHER)))
    def begin(self, lives: bool, constants: ProtocolConstants) -> None:
        self.client.flushall()
        self.lives, self.constants = lives, constants
        self.stepped = SteppedLedger(self.client, constants)
        self.ledger, self.callers = self.stepped.ledger, self.stepped.callers
        self.promises = Promises(constants)
        self.lean: dict[str, bool] = {}
        """Whether the reports of a request bring the callback, by request id."""
        self.timeouts_s: dict[str, float] = {}
        """By id, the first time limit that it was sent with."""

    def pick(self, number: int, *, state: str | None = None) -> str:
        """Returns a request in this state if there is one, else one that is in flight, ended or unknown."""
        entries = self.stepped.view().entries
        choice = sorted(request_id for request_id, entry in entries.items() if entry.state == state)
        if not choice:
            ended = [fields[b"id"].decode() for fields in self.stepped.outbox()[-2:]]
            choice = [*sorted(entries), *ended, "unknown"]
        return choice[number % len(choice)]

    def expect(self, accepted: Accepted) -> None:
        if accepted.is_new:
            self.promises.expect(accepted.request_id, accepted)
        elif accepted.state == "refused":
            self.promises.ends_due[accepted.request_id] += 1

    def chord_of(self, request_id: str, plan: Plan, timeout_ms: int) -> Any:
        options = dict(plan)
        names, self.lean[request_id] = options.pop("branches"), options.pop("is_lean")
        finish_ms, fusion_ms = reserves_ms(timeout_ms)
        message = f"part {request_id} {{}} 1" if self.lean[request_id] else ""
        return chord(*names, finish_ms=finish_ms, fusion_ms=fusion_ms, message=message, **options)

    def plan(self, request_id: str, plan: Plan) -> None:
        entry = self.ledger.load(request_id)
        timeout_ms = entry.deadline_ms - entry.accepted_at_ms if entry else 1_000
        outcome = self.ledger.plan(request_id, self.chord_of(request_id, plan, timeout_ms))
        self.promises.followed[request_id] += outcome == "follows"

    def send(self, request: Request, is_overloaded: bool, at_once: Any, plan: Plan) -> None:
        """`at_once`: generation and cached answer of a request that is accepted and planned in one step."""
        request_id, timeout_ms = request.request_id, round(1000 * request.timeout_s)
        self.stepped.overload(1_500 if is_overloaded else None)
        with suppress(RequestIdConflict):
            if at_once is None:
                self.expect(self.callers.accept(request))
                return
            self.stepped.know(*at_once)
            planned = self.chord_of(request_id, plan, timeout_ms)
            accepted, outcome, _ = self.ledger.submit(self.callers, request, planned, 7, [ANSWER])
            self.expect(accepted)
            self.promises.followed[request_id] += outcome == "follows"
        self.stepped.know(None, None)

    @rule(
        letter=st.sampled_from("abc"),
        timeout_s=timeouts_s,
        is_planned=st.sampled_from((True, True, False)),
        at_once=st.sampled_from((None, None, (7, None), (7, None), (7, b"an answer"), (8, None))),
        plan=plans,
        answered=st.integers(0, 3),
        status=statuses,
        is_overloaded=rarely,
    )
    def ask(
        self,
        letter: str,
        timeout_s: float,
        is_planned: bool,
        at_once: Any,
        plan: Plan,
        answered: int,
        status: str,
        is_overloaded: bool,
    ) -> None:
        # The letter comes first: requests with the same moment are swept in the order of their ids.
        request_id = f"{letter}{sum(self.promises.ends_due.values())}"
        self.timeouts_s[request_id] = timeout_s
        self.send(a_request(request_id, timeout_s), is_overloaded, at_once, plan)
        if is_planned:
            self.plan(request_id, plan)
            for branch in sorted(plan["branches"])[:answered]:
                self.report_of(request_id, branch, status)

    @rule(
        number=nth,
        timeout_s=timeouts_s,
        top_k=st.sampled_from((5, 5, 7)),
        at_once=st.sampled_from((None, (7, None))),
        plan=plans,
        is_overloaded=rarely,
    )
    def ask_again(
        self, number: int, timeout_s: float, top_k: int, at_once: Any, plan: Plan, is_overloaded: bool
    ) -> None:
        """With another `top_k`, it is another request of the same id."""
        request_id = self.pick(number)
        first_s = self.timeouts_s.setdefault(request_id, timeout_s)
        request = a_request(request_id, first_s if top_k == 5 else timeout_s, top_k)
        self.send(request, is_overloaded, at_once, plan)

    @rule(number=nth, state=st.sampled_from(("accepted", None)), plan=plans)
    def plan_again(self, number: int, state: str | None, plan: Plan) -> None:
        self.plan(self.pick(number, state=state), plan)

    @rule(number=nth, branch=branches)
    def start(self, number: int, branch: str) -> None:
        self.ledger.start(self.pick(number, state="planned"), branch)

    def report_of(
        self, request_id: str, branch: str, status: str, *, detail: str = "", attempt: int = 1, **options: Any
    ) -> None:
        branch_result = BranchResult(branch, status, detail=detail, attempt=attempt)
        callback = f"fuse {request_id}".encode()
        options["callback"] = callback if self.lean.get(request_id) else b""
        outcome = self.ledger.report(request_id, branch, branch_result, **options)
        if outcome == "due":
            self.ledger.call_fusion(callback)
        if outcome in ("counted", "waits", "joined", "due", "replaced"):
            self.promises.reported[request_id][branch] = branch_result.to_wire()

    @rule(
        number=nth,
        names=st.permutations(BRANCHES).flatmap(lambda names: st.sampled_from((names[:1], names))),
        status=statuses,
        detail=st.sampled_from(("", "other")),
        attempt=attempts,
    )
    def report(self, number: int, names: list[str], status: str, detail: str, attempt: int) -> None:
        request_id = self.pick(number, state="planned")
        for name in names:
            self.report_of(request_id, name, status, detail=detail, attempt=attempt)

    @rule(number=nth, branch=branches, age_ms=st.sampled_from((0, 1)))
    def report_for_one_accepted_then(self, number: int, branch: str, age_ms: int) -> None:
        request_id = self.pick(number, state="planned")
        known = self.promises.accepted.get(request_id)
        accepted_at_ms = known.accepted_at_ms - age_ms if known else 0
        self.report_of(request_id, branch, "ok", accepted_at_ms=accepted_at_ms)

    def join_and_finish(self, request_id: str, status: str, by: str, *, force: bool) -> None:
        if self.ledger.join(request_id, force=force) is not None:
            self.finish_as(request_id, status, by)

    def finish_as(self, request_id: str, status: str, by: str) -> None:
        body = f'{{"v":1,"status":"{status}","questions":[]}}'
        self.ledger.finish(request_id, by=by, body=body, is_complete=status == "complete")

    @rule(number=nth, force=st.sampled_from((False, False, True)))
    def join(self, number: int, force: bool) -> None:
        self.ledger.join(self.pick(number), force=force)

    @rule(number=nth, status=st.sampled_from(("complete", "degraded")))
    def finish(self, number: int, status: str) -> None:
        self.finish_as(self.pick(number), status, "fusion")

    @rule(number=nth, state=st.sampled_from(("planned", "following", "accepted", "fusing", None)))
    def cancel(self, number: int, state: str | None) -> None:
        request_id = self.pick(number, state=state)
        self.callers.cancel(request_id)
        assert self.callers.state(request_id) is None

    @rule(number=nth, is_patient=st.sampled_from((True, True, False)))
    def finish_failed(self, number: int, is_patient: bool) -> None:
        request_id = self.pick(number)
        known = self.promises.accepted.get(request_id)
        if known and is_patient:
            return
        timeout_s = (known.deadline_ms - known.accepted_at_ms) / 1000 if known else 1.0
        accepted_at_ms = known.accepted_at_ms if known else self.stepped.now_ms()
        if self.callers.state(request_id) is None and self.callers.result(request_id) is None:
            # The id is unknown by now, so this is the end of another request.
            self.promises.accepted.pop(request_id, None)
            self.promises.ends_due[request_id] += 1
            self.promises.forget(request_id)
        self.callers.finish_failed(a_request(request_id, timeout_s), accepted_at_ms)

    @rule(number=nth)
    def hasten(self, number: int) -> None:
        self.ledger.hasten(self.pick(number))

    @rule(queue=st.sampled_from(QUEUES), fate=st.sampled_from(("lost", "died", "ok", "ok", "failed")))
    def work(self, queue: str, fate: str) -> None:
        """A worker takes the oldest message and works until its fate."""
        message = self.stepped.take(queue)
        if message is None or fate == "lost":
            return
        kind, request_id, *part = message.decode().split()
        if kind == "part" and self.ledger.start(request_id, part[0]) and fate != "died":
            self.report_of(request_id, part[0], fate, attempt=int(part[1]))
        elif kind == "fuse" and fate == "died":
            self.ledger.join(request_id, force=False)
        elif kind == "fuse":
            status = "complete" if fate == "ok" else "degraded"
            self.join_and_finish(request_id, status, "fusion", force=False)
        elif kind == "retrieve" and fate != "died":
            self.plan(request_id, {**USUAL, "coalescing_key": COALESCING + "x", "is_lean": fate == "ok"})

    def act_as(self, sweeper: str, most: int = 64, done: int = 64) -> int | None:
        """A sweeper executes the first `done` of its actions.  Returns the milliseconds until the next moment."""
        due = self.ledger.sweep(sweeper, most=most)
        for action in due.actions:
            self.promises.count(action)
        for action in due.actions[:done]:
            self.act(action)
        return due.next_in_ms

    def act(self, action: Action) -> None:
        request_id, branch = action.request_id, action.branch
        if action.do == "retrieve":
            self.stepped.push(RETRIEVE, f"retrieve {request_id}".encode())
        elif action.do in ("part", "hedge"):
            attempt = 1 if action.do == "part" else 2
            self.stepped.push(f"queue.{branch}", f"part {request_id} {branch} {attempt}".encode())
        elif action.do == "fuse":
            self.ledger.call_fusion(f"fuse {request_id}".encode())
        elif action.do == "plan":
            self.plan(request_id, USUAL)
        elif action.do == "end":
            self.join_and_finish(request_id, "degraded", "sweeper", force=True)

    @precondition(lambda self: not self.lives)
    @rule(
        sweeper=st.sampled_from(("first", "second", "third")),
        most=st.sampled_from((64, 64, 2)),
        done=st.sampled_from((0, 1, 64)),
    )
    def sweep(self, sweeper: str, most: int, done: int) -> None:
        self.act_as(sweeper, most, done)

    @rule(ms=st.sampled_from((1, 5, 10, 20, 39, 40, 50, 80, 81, 100, 250, 500, 1_000)))
    def time_passes(self, ms: int) -> None:
        self.pass_time(ms, is_swept=self.lives)

    def pass_time(self, ms: int, *, is_swept: bool) -> None:
        until = self.stepped.now_ms() + ms
        while (remaining_ms := until - self.stepped.now_ms()) > 0:
            next_ms = self.act_as("the living") if is_swept else None
            self.stepped.step(remaining_ms if next_ms is None else min(remaining_ms, next_ms))

    @rule(queue=st.sampled_from(QUEUES))
    def messages_are_lost(self, queue: str) -> None:
        self.stepped.drop(queue)

    @rule(number=nth, is_all_of_it=st.integers(0, 3).map(lambda number: number == 3))
    def an_entry_is_lost(self, number: int, is_all_of_it: bool) -> None:
        """An entry is deleted, or nobody sweeps for so long that everything expires."""
        if not is_all_of_it:
            self.stepped.lose(self.pick(number))
        elif not self.lives:
            self.stepped.step(AN_HOUR_AND_A_MINUTE_MS)
        view = self.stepped.view()
        for gone in self.promises.accepted.keys() - self.promises.ended(view) - view.entries.keys():
            del self.promises.accepted[gone]

    @invariant()
    def the_promises_hold(self) -> None:
        self.promises.hold(self.stepped.view(), self.stepped.now_ms(), is_swept=self.lives)

    def teardown(self) -> None:
        """A living sweeper ends whatever is in flight, and then Redis is as empty as before."""
        if not self.lives:
            # The lease of a dead sweeper has to expire.
            self.stepped.step(self.constants.sweeper_lease_ms + 1)
        self.pass_time(self.constants.sweeper_lease_ms + 1 + 3_000, is_swept=True)
        self.the_promises_hold()
        view = self.stepped.view()
        assert view.moments == {}
        assert self.promises.ended(view) == self.promises.accepted.keys(), "some never ended"
        self.stepped.overload(None)
        self.stepped.step(AN_HOUR_AND_A_MINUTE_MS)
        self.stepped.drop(*QUEUES)
        assert set(self.client.keys("*")) <= {
            key.encode() for key in (NOW, EXPIRIES, OUTBOX, OUTBOX_REFUSED, READY)
        }


@pytest.mark.limit_s(max(120, EXAMPLES))
def test_the_promises_hold_through_random_steps(redis_client: Redis) -> None:
    class OnThisRedis(LedgerMachine):
        client = redis_client

    run_state_machine_as_test(
        OnThisRedis,
        settings=settings(
            max_examples=EXAMPLES or 60,
            stateful_step_count=STEPS,
            derandomize=not EXAMPLES,
            # Shrinking takes minutes, so that only runs with EXAMPLES shrink.
            phases=[Phase.generate, *([Phase.shrink] if EXAMPLES else [])],
            report_multiple_bugs=False,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
