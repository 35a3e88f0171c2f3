"""The real scripts against their plain model, through interleavings that nobody would think of.

Every rule is done to a `RedisLedger` and to a `MemoryLedger` at the same stepped time.  They have to answer alike and
to look alike after each step; and what the ledger promises holds on top.  In half of the runs a sweeper lives all
along; in the other half sweepers come and go, and die between what they found and what they do about it.

`CHORALE_TEST_LEDGER_EXAMPLES=5000` makes a soak of it, with other examples each time.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import pytest
from chorale_client import RequestIdConflict
from chorale_client.keys import FLIGHT, OUTBOX
from chorale_client.ledger import Accepted
from hypothesis import HealthCheck, settings
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

from ledger.protocol import Action, Callback, Part
from models.envelope import Envelope
from tests.faults.ledger_plans import (
    BRANCHES,
    NTH,
    PLANS,
    QUEUES,
    TIMEOUTS_S,
    Planned,
    a_request,
    branches,
    reserves_ms,
    statuses,
    tail,
)
from tests.stepped_ledgers import EXPIRIES, NOW, SteppedLedger, SteppedMemory, SteppedRedis, View

EXAMPLES = int(os.environ.get("CHORALE_TEST_LEDGER_EXAMPLES", "0"))
STEPS = 40

AN_HOUR_AND_A_MINUTE_MS = 3_660_000

NUMBERS = re.compile(
    rb"accepted_at|deadline|answer_ttl|(retrieve|fuse)_sent|left|join_at|(finish|fusion)_reserve|fusing_until"
    rb"|(limit|resend|resent|started):.*"
)


Outcome = TypeVar("Outcome")


class LedgerMachine(RuleBasedStateMachine):
    client: Redis

    def __init__(self) -> None:
        super().__init__()
        self.client.flushall()
        self.real, self.model = SteppedRedis(self.client), SteppedMemory()
        self.lives = False
        self.accepted: dict[str, Accepted] = {}
        """Of each id the request that has to end: accepted, and its entry never lost."""
        self.reported: dict[str, dict[str, bytes]] = {}
        """What the ledger took of each request before its snapshot, by branch."""
        self.ends_due: Counter[str] = Counter()
        """How often each id may end."""

    def both(self, call: Callable[[SteppedLedger], Outcome]) -> Outcome:
        """Do it to both; the answer, which has to be the same."""
        real, model = call(self.real), call(self.model)
        assert real == model
        return model

    @initialize(lives=st.booleans())
    def begin(self, lives: bool) -> None:
        self.lives = lives

    def pick(self, nth: int, *, state: str | None = None) -> str:
        """A request in this state if there is one; else one in flight or, now and then, one that has been."""
        entries = self.model.view().entries
        choice = sorted(request_id for request_id, entry in entries.items() if entry.state == state)
        if not choice:
            ended = [fields[b"id"].decode() for fields in list(self.model.ledger.outbox)[-2:]]
            choice = [*sorted(entries), *ended, "unknown"]
        return choice[nth % len(choice)]

    @rule(
        letter=st.sampled_from("abc"),
        timeout_s=st.sampled_from(TIMEOUTS_S),
        is_planned=st.sampled_from((True, True, False)),
        plan=PLANS,
        answered=st.integers(0, 3),
        status=statuses,
    )
    def submit(
        self, letter: str, timeout_s: float, is_planned: bool, plan: Planned, answered: int, status: str
    ) -> None:
        # The letter in front, since at one moment ids go by the alphabet.
        request_id = f"{letter}{sum(self.ends_due.values())}"
        self.accept(request_id, timeout_s, 5)
        if is_planned:
            self.plan(request_id, plan)
            for name in sorted(plan.branches)[:answered]:
                self.report(request_id, name, status, "")

    @rule(nth=NTH, timeout_s=st.sampled_from(TIMEOUTS_S), top_k=st.sampled_from((5, 5, 7)))
    def accept_again(self, nth: int, timeout_s: float, top_k: int) -> None:
        request_id = self.pick(nth)
        known = self.accepted.get(request_id)
        if known is not None and top_k == 5:
            timeout_s = (known.deadline_ms - known.accepted_at_ms) / 1000
        self.accept(request_id, timeout_s, top_k)

    def accept(self, request_id: str, timeout_s: float, top_k: int) -> None:
        def call(stepped: SteppedLedger) -> Accepted | None:
            try:
                return stepped.callers.accept(a_request(request_id, timeout_s, top_k))
            except RequestIdConflict:
                return None

        accepted = self.both(call)
        if accepted is not None and accepted.is_new:
            self.accepted[request_id] = accepted
            self.reported[request_id] = {}
            self.ends_due[request_id] += 1

    @rule(nth=NTH, state=st.sampled_from(("accepted", None)), plan=PLANS)
    def plan_again(self, nth: int, state: str | None, plan: Planned) -> None:
        self.plan(self.pick(nth, state=state), plan)

    def plan(self, request_id: str, plan: Planned) -> None:
        entry = self.model.ledger.load(request_id)
        finish_ms, fusion_ms = reserves_ms(entry.deadline_ms - entry.accepted_at_ms if entry else 1_000)

        def message(text: str) -> bytes:
            return text.encode() if plan.is_lean else b""

        parts = [
            Part(name, f"queue.{name}", plan.limit_ms, plan.resend_ms, message(f"part {request_id} {name}"))
            for name in sorted(plan.branches)
        ]
        callback = Callback("queue.fusion", message(f"fuse {request_id}"))
        self.both(
            lambda stepped: stepped.ledger.plan(
                request_id,
                b'{"v":1}',
                parts,
                callback,
                finish_reserve_ms=finish_ms,
                fusion_reserve_ms=fusion_ms,
                flight=plan.flight,
            )
        )

    @rule(nth=NTH, branch=branches)
    def start(self, nth: int, branch: str) -> None:
        self.is_started(self.pick(nth, state="planned"), branch)

    def is_started(self, request_id: str, branch: str) -> bool:
        return self.both(lambda stepped: stepped.ledger.start(request_id, branch)) is not None

    @rule(
        nth=NTH,
        names=st.permutations(BRANCHES).flatmap(lambda names: st.sampled_from((names[:1], names))),
        status=statuses,
        detail=st.sampled_from(("", "other")),
    )
    def report_some(self, nth: int, names: list[str], status: str, detail: str) -> None:
        request_id = self.pick(nth, state="planned")
        for name in names:
            self.report(request_id, name, status, detail)

    def report(self, request_id: str, branch: str, status: str, detail: str) -> None:
        envelope = Envelope(branch, status, detail=detail)
        outcome = self.both(lambda stepped: stepped.ledger.report(request_id, branch, envelope))
        if outcome == "due":
            self.both(lambda stepped: stepped.push("queue.fusion", f"fuse {request_id}".encode()))
        if outcome in ("counted", "joined", "due", "replaced"):
            self.reported[request_id][branch] = envelope.to_wire()

    @rule(nth=NTH, force=st.sampled_from((False, False, True)))
    def join(self, nth: int, force: bool) -> None:
        self.is_joined(self.pick(nth), force=force)

    def is_joined(self, request_id: str, *, force: bool) -> bool:
        return self.both(lambda stepped: stepped.ledger.join(request_id, force=force)) is not None

    @rule(nth=NTH, status=st.sampled_from(("complete", "degraded")))
    def finish_some(self, nth: int, status: str) -> None:
        self.finish(self.pick(nth), status, by="fusion")

    def finish(self, request_id: str, status: str, *, by: str) -> None:
        self.both(
            lambda stepped: stepped.ledger.finish(
                request_id, by=by, tail=tail(status), is_complete=status == "complete"
            )
        )

    @rule(nth=NTH, is_patient=st.sampled_from((True, True, False)))
    def finish_failed(self, nth: int, is_patient: bool) -> None:
        request_id = self.pick(nth)
        if request_id in self.accepted and is_patient:
            return
        known = self.accepted.get(request_id)
        timeout_s = (known.deadline_ms - known.accepted_at_ms) / 1000 if known else 1.0
        accepted_at_ms = known.accepted_at_ms if known else self.model.now_ms()
        if self.model.callers.state(request_id) is None and self.model.callers.result(request_id) is None:
            self.ends_due[request_id] += 1
            self.reported[request_id] = {}
        self.both(
            lambda stepped: stepped.callers.finish_failed(a_request(request_id, timeout_s), accepted_at_ms)
        )

    @rule(nth=NTH)
    def hasten(self, nth: int) -> None:
        request_id = self.pick(nth)
        self.both(lambda stepped: stepped.ledger.hasten(request_id))

    @rule(queue=st.sampled_from(QUEUES), fate=st.sampled_from(("lost", "died", "ok", "ok", "failed")))
    def work(self, queue: str, fate: str) -> None:
        """A worker takes the oldest message and comes as far as its fate lets it."""
        message = self.both(lambda stepped: stepped.take(queue))
        if message is None or fate == "lost":
            return
        kind, request_id, *branch = message.decode().split()
        if kind == "part" and self.is_started(request_id, branch[0]) and fate != "died":
            self.report(request_id, branch[0], fate, "")
        elif kind == "fuse" and self.is_joined(request_id, force=False) and fate != "died":
            self.finish(request_id, "complete" if fate == "ok" else "degraded", by="fusion")
        elif kind == "retrieve" and fate != "died":
            self.plan(request_id, Planned({"bm25", "vector"}, 300, 50, FLIGHT + "x", fate == "ok"))

    @precondition(lambda self: not self.lives)
    @rule(
        sweeper=st.sampled_from(("first", "second", "third")),
        most=st.sampled_from((64, 64, 2)),
        done=st.sampled_from((0, 1, 64)),
    )
    def sweep(self, sweeper: str, most: int, done: int) -> None:
        self.swept(sweeper, most, done)

    def swept(self, sweeper: str, most: int = 64, done: int = 64) -> int | None:
        """A sweeper looks, does so many of its actions, and dies or lives on.  Until the next moment (ms)."""
        real = self.real.ledger.sweep(sweeper, most=most)
        found = self.model.ledger.sweep(sweeper, most=most)
        # Parts of one request have no order.
        assert sorted(real.actions, key=str) == sorted(found.actions, key=str)
        assert (real.next_in_ms, real.is_acting) == (found.next_in_ms, found.is_acting)
        for action in found.actions[:done]:
            self.act(action)
        return found.next_in_ms

    def act(self, action: Action) -> None:
        messages = {
            "retrieve": ("queue.retrieve", f"retrieve {action.request_id}"),
            "part": (f"queue.{action.branch}", f"part {action.request_id} {action.branch}"),
            "fuse": ("queue.fusion", f"fuse {action.request_id}"),
        }
        if action.do in messages:
            queue, message = messages[action.do]
            self.both(lambda stepped: stepped.push(queue, message.encode()))
        elif action.do == "end" and self.is_joined(action.request_id, force=True):
            self.finish(action.request_id, "degraded", by="sweeper")

    @rule(ms=st.sampled_from((1, 5, 10, 20, 39, 40, 50, 100, 150, 151, 250, 500, 1_000)))
    def time_passes(self, ms: int) -> None:
        self.pass_time(ms, is_swept=self.lives)

    def pass_time(self, ms: int, *, is_swept: bool) -> None:
        until = self.model.now_ms() + ms
        while (left_ms := until - self.model.now_ms()) > 0:
            step_ms = left_ms
            if is_swept:
                next_ms = self.swept("the living")
                if next_ms is not None:
                    step_ms = min(left_ms, next_ms)
            self.both(lambda stepped, ms=step_ms: stepped.step(ms))  # type: ignore[misc]

    @rule(queue=st.sampled_from(QUEUES))
    def messages_are_lost(self, queue: str) -> None:
        self.both(lambda stepped: stepped.drop(queue))

    @rule(nth=NTH, is_all_of_it=st.integers(0, 3).map(lambda one: one == 3))
    def an_entry_is_lost(self, nth: int, is_all_of_it: bool) -> None:
        """Deleted; or nobody swept for so long that everything expired."""
        request_id = self.pick(nth)
        if not is_all_of_it:
            self.both(lambda stepped: stepped.lose(request_id))
        elif not self.lives:
            self.both(lambda stepped: stepped.step(AN_HOUR_AND_A_MINUTE_MS))
        view = self.model.view()
        ended = {one for fields in view.outbox if self.is_of(one := fields[b"id"].decode(), fields)}
        for gone in self.accepted.keys() - ended - view.entries.keys():
            del self.accepted[gone]

    @invariant()
    def the_promises_hold(self) -> None:
        view = self.real.view()
        assert view == self.model.view()
        self.every_request_in_flight_has_a_next_moment(view)
        self.times_and_counts_are_written_in_digits(view)
        self.a_request_ends_once(view)
        self.no_answer_is_lost_that_came_before_the_snapshot(view)
        self.nothing_of_what_ended_is_left(view)
        self.while_a_sweeper_lives_no_end_comes_late(view)

    def every_request_in_flight_has_a_next_moment(self, view: View) -> None:
        assert view.moments.keys() >= view.entries.keys()
        assert all(moment.is_integer() for moment in view.moments.values())

    def times_and_counts_are_written_in_digits(self, view: View) -> None:
        for field, value in view.fields:
            assert not NUMBERS.fullmatch(field) or re.fullmatch(rb"-?\d+", value), (field, value)

    def a_request_ends_once(self, view: View) -> None:
        assert Counter(fields[b"id"].decode() for fields in view.outbox) <= self.ends_due

    def no_answer_is_lost_that_came_before_the_snapshot(self, view: View) -> None:
        for fields in view.outbox:
            request_id = fields[b"id"].decode()
            if self.is_of(request_id, fields):
                kept = {
                    name.decode().removeprefix("envelope:"): value
                    for name, value in fields.items()
                    if name.startswith(b"envelope:")
                }
                assert kept == self.reported[request_id]

    def nothing_of_what_ended_is_left(self, view: View) -> None:
        for fields in view.outbox:
            request_id = fields[b"id"].decode()
            if self.is_of(request_id, fields):
                assert request_id not in view.entries
                assert request_id not in view.moments
                assert request_id not in view.flights.values()

    def while_a_sweeper_lives_no_end_comes_late(self, view: View) -> None:
        if not self.lives:
            return
        for request_id, known in self.accepted.items():
            reserve_ms, _ = reserves_ms(known.deadline_ms - known.accepted_at_ms)
            if request_id in view.entries:
                assert self.model.now_ms() <= known.deadline_ms + reserve_ms
        for fields in view.outbox:
            request_id = fields[b"id"].decode()
            if self.is_of(request_id, fields):
                known = self.accepted[request_id]
                reserve_ms, _ = reserves_ms(known.deadline_ms - known.accepted_at_ms)
                assert int(fields[b"ended_at"]) <= known.deadline_ms + reserve_ms

    def is_of(self, request_id: str, fields: dict[bytes, bytes]) -> bool:
        """Whether this end is that of the request that was accepted last under this id."""
        known = self.accepted.get(request_id)
        return known is not None and int(fields[b"accepted_at"]) == known.accepted_at_ms

    def teardown(self) -> None:
        """A sweeper that lives ends whatever is in flight; and in the end Redis is as before."""
        if not self.lives:
            # The lease of a sweeper that died.
            self.both(lambda stepped: stepped.step(151))
        self.pass_time(151 + 3_000, is_swept=True)
        self.the_promises_hold()
        view = self.model.view()
        assert view.moments == {}
        ends = {one for fields in view.outbox if self.is_of(one := fields[b"id"].decode(), fields)}
        assert ends == self.accepted.keys(), "some never ended"
        self.both(lambda stepped: stepped.step(AN_HOUR_AND_A_MINUTE_MS))
        self.both(lambda stepped: stepped.drop(*QUEUES))
        assert set(self.client.keys("*")) <= {key.encode() for key in (NOW, EXPIRIES, OUTBOX)}


@pytest.mark.slow
@pytest.mark.timeout(max(120, EXAMPLES))
def test_the_scripts_do_what_the_model_does(redis_client: Redis) -> None:
    class OnThisRedis(LedgerMachine):
        client = redis_client

    run_state_machine_as_test(
        OnThisRedis,
        settings=settings(
            max_examples=EXAMPLES or 200,
            stateful_step_count=STEPS,
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
