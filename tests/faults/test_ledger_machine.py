"""The ledger's scripts through random sequences of steps (a hypothesis state machine).

The promises of the ledger have to hold after each step.  In half of the runs a sweeper is alive all the time; in the other
half sweepers come, go, and die between finding an action and doing it.  Half of the runs use `OTHER` constants.

`CHORALE_TEST_LEDGER_EXAMPLES=5000` runs more examples, new ones each time, and shrinks one that fails.
"""

from __future__ import annotations

import os

import pytest
from chorale_client.keys import FLIGHT, OUTBOX, OUTBOX_REFUSED
from chorale_client.protocol_constants import PROTOCOL, ProtocolConstants
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

from tests.support.ledger.ledger_plans import (
    ATTEMPTS,
    BRANCHES,
    NTH,
    PLANS,
    QUEUES,
    RARELY,
    TIMEOUTS_S,
    Planned,
    a_request,
    branches,
    statuses,
)
from tests.support.ledger.ledger_steps import LedgerSteps
from tests.support.ledger.stepped_ledger import EXPIRIES, NOW

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


class LedgerMachine(RuleBasedStateMachine):
    client: Redis

    def __init__(self) -> None:
        super().__init__()
        self.client.flushall()
        self.steps = LedgerSteps(self.client)
        self.lives = False
        self.timeouts_s: dict[str, float] = {}
        """By id, the first time limit that it was sent with."""

    @initialize(
        lives=st.booleans(),
        constants=st.sampled_from((PROTOCOL, OTHER)),
        nobody_works=st.sampled_from((False, False, True)),
    )
    def begin(self, lives: bool, constants: ProtocolConstants, nobody_works: bool) -> None:
        self.lives = lives
        self.steps = LedgerSteps(self.client, constants)
        if nobody_works:
            self.send_everything_as_often_as_it_may_be_sent()

    def send_everything_as_often_as_it_may_be_sent(self) -> None:
        """No message arrives, and the sweeper only finds what is due."""
        for letter, limit_ms in (("a", None), ("b", 2_500), ("c", 50)):
            request_id = self.steps.new_id(letter)
            self.timeouts_s[request_id] = 3.0
            self.steps.accept(request_id, 3.0)
            if limit_ms is not None:
                self.steps.plan(request_id, Planned({"bm25"}, limit_ms, 20, None, True))
        for _ in range(13):
            self.steps.sweep("the living", done=0)
            self.steps.stepped.drop(*QUEUES)
            self.steps.stepped.step(200)

    @rule(
        letter=st.sampled_from("abc"),
        timeout_s=st.sampled_from(TIMEOUTS_S),
        is_planned=st.sampled_from((True, True, False)),
        at_once=st.sampled_from((None, None, (7, None), (7, None), (7, b"an answer"), (8, None))),
        plan=PLANS,
        answered=st.integers(0, 3),
        status=statuses,
        is_overloaded=RARELY,
    )
    def submit(
        self,
        letter: str,
        timeout_s: float,
        is_planned: bool,
        at_once: tuple[int, bytes | None] | None,
        plan: Planned,
        answered: int,
        status: str,
        is_overloaded: bool,
    ) -> None:
        """`at_once`: generation and cached answer of a request that is accepted and planned in one step."""
        request_id = self.steps.new_id(letter)
        self.timeouts_s[request_id] = timeout_s
        if at_once is None:
            self.steps.accept(request_id, timeout_s, is_overloaded=is_overloaded)
        else:
            generation, cached = at_once
            self.steps.submit(
                request_id,
                timeout_s,
                plan,
                is_overloaded=is_overloaded,
                generation=generation,
                cached=cached,
            )
        if is_planned:
            self.steps.plan(request_id, plan)
            for name in sorted(plan.branches)[:answered]:
                self.steps.report(request_id, name, status)

    @rule(
        letter=st.sampled_from("abc"),
        is_started=st.booleans(),
        decisive=st.sampled_from(((), ("vector",), BRANCHES)),
        reports=st.lists(
            st.tuples(
                st.sampled_from(("bm25", "vector")), ATTEMPTS, st.sampled_from(("ok", "failed", "failed"))
            ),
            min_size=1,
            max_size=5,
        ),
    )
    def submit_and_hedge(
        self,
        letter: str,
        is_started: bool,
        decisive: tuple[str, ...],
        reports: list[tuple[str, int, str]],
    ) -> None:
        """A request whose parts have not answered when the sweeper hedges them."""
        request_id = self.steps.new_id(letter)
        self.steps.accept(request_id, 3.0)
        self.steps.plan(
            request_id, Planned({"bm25", "vector"}, 2_000, 250, None, True, 30, frozenset(decisive))
        )
        if is_started:
            self.steps.start(request_id, "vector")
        # The lease of a dead sweeper may have to expire first.
        self.steps.pass_time(30 + self.steps.constants.sweeper_lease_ms + 1, is_swept=True)
        for name, attempt, status in reports:
            self.steps.report(request_id, name, status, attempt=attempt)

    @rule(
        letters=st.permutations("abc"),
        timeout_s=st.sampled_from(TIMEOUTS_S),
        late_ms=st.sampled_from((0, 1, 300)),
        fate=st.sampled_from(("cancelled", "follower cancelled", "complete", "degraded", "none")),
    )
    def ask_the_same_thrice(self, letters: list[str], timeout_s: float, late_ms: int, fate: str) -> None:
        ids = [f"{self.steps.new_id(letter)}{letter}" for letter in letters]
        for request_id in ids:
            self.steps.accept(request_id, timeout_s)
            self.steps.plan(request_id, Planned({"bm25"}, 2_000, 250, FLIGHT + "x", True))
        self.steps.pass_time(late_ms, is_swept=self.lives)
        if fate == "cancelled":
            self.steps.cancel(ids[0])
        elif fate == "follower cancelled":
            self.steps.cancel(ids[1])
        elif fate != "none":
            self.steps.finish(ids[0], fate, by="fusion")

    @rule(
        nth=NTH,
        timeout_s=st.sampled_from(TIMEOUTS_S),
        top_k=st.sampled_from((5, 5, 7)),
        is_overloaded=RARELY,
    )
    def accept_again(self, nth: int, timeout_s: float, top_k: int, is_overloaded: bool) -> None:
        request_id = self.steps.pick(nth)
        if top_k == 5:
            timeout_s = self.timeouts_s.get(request_id, timeout_s)
        self.timeouts_s.setdefault(request_id, timeout_s)
        self.steps.accept(request_id, timeout_s, top_k=top_k, is_overloaded=is_overloaded)

    @rule(nth=NTH, timeout_s=st.sampled_from(TIMEOUTS_S), plan=PLANS)
    def submit_again(self, nth: int, timeout_s: float, plan: Planned) -> None:
        request_id = self.steps.pick(nth)
        timeout_s = self.timeouts_s.setdefault(request_id, timeout_s)
        self.steps.submit(request_id, timeout_s, plan, is_overloaded=False, generation=7, cached=None)

    @rule(nth=NTH, state=st.sampled_from(("accepted", None)), plan=PLANS)
    def plan_again(self, nth: int, state: str | None, plan: Planned) -> None:
        self.steps.plan(self.steps.pick(nth, state=state), plan)

    @rule(nth=NTH, branch=branches)
    def start(self, nth: int, branch: str) -> None:
        self.steps.start(self.steps.pick(nth, state="planned"), branch)

    @rule(
        nth=NTH,
        names=st.permutations(BRANCHES).flatmap(lambda names: st.sampled_from((names[:1], names))),
        status=statuses,
        detail=st.sampled_from(("", "other")),
        attempt=ATTEMPTS,
    )
    def report(self, nth: int, names: list[str], status: str, detail: str, attempt: int) -> None:
        request_id = self.steps.pick(nth, state="planned")
        for name in names:
            self.steps.report(request_id, name, status, detail=detail, attempt=attempt)

    @rule(nth=NTH, branch=branches, age_ms=st.sampled_from((0, 1)))
    def report_for_one_accepted_then(self, nth: int, branch: str, age_ms: int) -> None:
        request_id = self.steps.pick(nth, state="planned")
        known = self.steps.promises.accepted.get(request_id)
        self.steps.report(
            request_id, branch, "ok", accepted_at_ms=known.accepted_at_ms - age_ms if known else 0
        )

    @rule(nth=NTH, force=st.sampled_from((False, False, True)))
    def join(self, nth: int, force: bool) -> None:
        self.steps.join(self.steps.pick(nth), force=force)

    @rule(nth=NTH, status=st.sampled_from(("complete", "degraded")))
    def finish(self, nth: int, status: str) -> None:
        self.steps.finish(self.steps.pick(nth), status, by="fusion")

    @rule(nth=NTH, state=st.sampled_from(("planned", "following", "accepted", "fusing", None)))
    def cancel(self, nth: int, state: str | None) -> None:
        self.steps.cancel(self.steps.pick(nth, state=state))

    @rule(nth=NTH, is_patient=st.sampled_from((True, True, False)))
    def finish_failed(self, nth: int, is_patient: bool) -> None:
        steps, request_id = self.steps, self.steps.pick(nth)
        known = steps.promises.accepted.get(request_id)
        if known and is_patient:
            return
        timeout_s = (known.deadline_ms - known.accepted_at_ms) / 1000 if known else 1.0
        accepted_at_ms = known.accepted_at_ms if known else steps.stepped.now_ms()
        if (
            steps.stepped.callers.state(request_id) is None
            and steps.stepped.callers.result(request_id) is None
        ):
            # The id is unknown by now, so this is the end of another request.
            steps.promises.accepted.pop(request_id, None)
            steps.promises.ends_due[request_id] += 1
            steps.promises.forget(request_id)
        steps.stepped.callers.finish_failed(a_request(request_id, timeout_s), accepted_at_ms)

    @rule(nth=NTH)
    def hasten(self, nth: int) -> None:
        request_id = self.steps.pick(nth)
        self.steps.stepped.ledger.hasten(request_id)

    @rule(queue=st.sampled_from(QUEUES), fate=st.sampled_from(("lost", "died", "ok", "ok", "failed")))
    def work(self, queue: str, fate: str) -> None:
        """A worker takes the oldest message and works until its fate."""
        message = self.steps.stepped.take(queue)
        if message is None or fate == "lost":
            return
        kind, request_id, *part = message.decode().split()
        if kind == "part" and self.steps.start(request_id, part[0]) and fate != "died":
            self.steps.report(request_id, part[0], fate, attempt=int(part[1]))
        elif kind == "fuse" and self.steps.join(request_id, force=False) and fate != "died":
            self.steps.finish(request_id, "complete" if fate == "ok" else "degraded", by="fusion")
        elif kind == "retrieve" and fate != "died":
            self.steps.plan(request_id, Planned({"bm25", "vector"}, 300, 50, FLIGHT + "x", fate == "ok"))

    @precondition(lambda self: not self.lives)
    @rule(
        sweeper=st.sampled_from(("first", "second", "third")),
        most=st.sampled_from((64, 64, 2)),
        done=st.sampled_from((0, 1, 64)),
    )
    def sweep(self, sweeper: str, most: int, done: int) -> None:
        self.steps.sweep(sweeper, most, done)

    @rule(ms=st.sampled_from((1, 5, 10, 20, 39, 40, 50, 80, 81, 100, 250, 500, 1_000)))
    def time_passes(self, ms: int) -> None:
        self.steps.pass_time(ms, is_swept=self.lives)

    @rule(queue=st.sampled_from(QUEUES))
    def messages_are_lost(self, queue: str) -> None:
        self.steps.stepped.drop(queue)

    @rule(nth=NTH, is_all_of_it=st.integers(0, 3).map(lambda one: one == 3))
    def an_entry_is_lost(self, nth: int, is_all_of_it: bool) -> None:
        """An entry is deleted, or nobody sweeps for so long that everything expires."""
        steps, request_id = self.steps, self.steps.pick(nth)
        if not is_all_of_it:
            steps.stepped.lose(request_id)
        elif not self.lives:
            steps.stepped.step(AN_HOUR_AND_A_MINUTE_MS)
        view = steps.stepped.view()
        for gone in steps.promises.accepted.keys() - steps.ended(view) - view.entries.keys():
            del steps.promises.accepted[gone]

    @invariant()
    def the_promises_hold(self) -> None:
        self.steps.check(is_swept=self.lives)

    def teardown(self) -> None:
        """A living sweeper ends whatever is in flight, and then Redis is as empty as before."""
        steps = self.steps
        if not self.lives:
            # The lease of a dead sweeper has to expire.
            steps.stepped.step(steps.constants.sweeper_lease_ms + 1)
        steps.pass_time(steps.constants.sweeper_lease_ms + 1 + 3_000, is_swept=True)
        steps.check(is_swept=self.lives)
        view = steps.stepped.view()
        assert view.moments == {}
        assert steps.ended(view) == steps.promises.accepted.keys(), "some never ended"
        steps.stepped.overload(None)
        steps.stepped.step(AN_HOUR_AND_A_MINUTE_MS)
        steps.stepped.drop(*QUEUES)
        assert set(self.client.keys("*")) <= {key.encode() for key in (NOW, EXPIRIES, OUTBOX, OUTBOX_REFUSED)}


def run(machine: type[LedgerMachine], redis_client: Redis) -> None:
    class OnThisRedis(machine):  # type: ignore[valid-type, misc]
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


@pytest.mark.limit_s(max(120, EXAMPLES))
def test_the_promises_hold_through_random_steps(redis_client: Redis) -> None:
    run(LedgerMachine, redis_client)
