"""The promises of the ledger for its sweepers, and for equal questions in flight."""

from __future__ import annotations

import pytest
from chorale_client import Request
from chorale_client.keys import FLIGHT
from chorale_client.words import QUEUE_FUSION

from ledger.protocol import Action
from tests.contracts.ledger import (
    CALLBACK,
    OTHER_TAIL,
    TAIL,
    LedgerContract,
    a_request,
    accept,
    actions_within,
    every,
    ok,
    plan,
    the_result,
)
from tests.support.ledger.single_steps import SingleSteps
from tests.support.ledger.stepped_ledger import SteppedLedger


class SweepingContract(LedgerContract):
    def test_only_one_sweeper_acts(self, stepped: SteppedLedger, ledger: SingleSteps) -> None:
        assert ledger.sweep("first").is_acting
        assert not ledger.sweep("second").is_acting
        stepped.step(80)
        assert not ledger.sweep("second").is_acting
        stepped.step(1)
        assert ledger.sweep("second").is_acting, "the first one's lease is over"

    def test_a_part_that_nobody_took_is_resent_at_most_twice(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", "vector", resend_ms=50)
        stepped.drop("queue.bm25", "queue.vector")
        ledger.start(request.request_id, "vector")
        again = (Action("part", request.request_id, "bm25"),)
        assert actions_within(stepped, 1_800) == {50: again, 550: again}, "and what was started is not"

    def test_a_part_that_still_waits_in_its_queue_is_not_sent_again(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", resend_ms=50)
        assert actions_within(stepped, 700) == {}

    def test_the_callback_is_published_at_join_at(self, stepped: SteppedLedger, ledger: SingleSteps) -> None:
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", "vector", limit_ms=50)
        assert actions_within(stepped, 200) == {50: (Action("fuse", request.request_id),)}
        ledger.call_fusion(CALLBACK)
        assert stepped.queue(QUEUE_FUSION) == [CALLBACK]

    def test_a_callback_that_still_waits_in_its_queue_is_not_sent_again(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        """However long it waits, the fusion that takes it still has all its attempts."""
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25")
        ledger.report(request.request_id, "bm25", ok("bm25"), callback=CALLBACK)
        assert actions_within(stepped, 2_000) == {}
        assert stepped.take(QUEUE_FUSION) == CALLBACK
        # The sweeper checks every 250 ms, and one of these moments is now.
        assert actions_within(stepped, 240) == {0: (Action("fuse", request.request_id),)}

    def test_a_dead_fusion_is_called_again_and_then_the_sweeper_ends_the_request(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request(timeout_s=1)
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", finish_ms=60, fusion_ms=160)
        ledger.report(request.request_id, "bm25", ok("bm25"))
        assert ledger.join(request.request_id) is not None
        again, end = Action("fuse", request.request_id), Action("end", request.request_id)
        # Half of the 940 ms until the end for the first fusion, 250 ms for the second; 720 + 160 is before 940.
        assert actions_within(stepped, 940) == {470: (again,), 720: (again,), 940: (end,)}

    def test_a_fusion_with_much_time_left_keeps_a_request_for_half_a_second(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request(timeout_s=10)
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", finish_ms=60, fusion_ms=160)
        ledger.report(request.request_id, "bm25", ok("bm25"))
        assert ledger.join(request.request_id) is not None
        again, end = Action("fuse", request.request_id), Action("end", request.request_id)
        assert actions_within(stepped, 1_080) == {
            500: (again,),
            750: (again,),
            # Again whenever the lease of the sweeper that should end the request is over.
            1_000: (end,),
            1_080: (end,),
        }

    def test_every_request_is_ended_before_its_deadline(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request(timeout_s=0.5)
        accepted = stepped.callers.accept(request)
        plan(ledger, request, "bm25", finish_ms=60, fusion_ms=160)
        while not any(action.do == "end" for action in ledger.sweep("sweeper").actions):
            assert stepped.now_ms() < accepted.deadline_ms, "nobody ended it"
            stepped.step(1)
        entry = ledger.join(request.request_id, force=True)
        assert entry is not None
        # One finish reserve before the deadline.
        assert entry.now_ms == accepted.deadline_ms - 60

    def test_a_failed_callback_makes_the_sweeper_act_at_once(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        ledger.join(planned.request_id, force=True)
        ledger.hasten(planned.request_id)
        assert ledger.sweep("sweeper").actions == (Action("fuse", planned.request_id),)
        ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True)
        ledger.hasten(planned.request_id)
        assert stepped.moments() == {}

    @pytest.mark.parametrize("state", ["accepted", "following"])
    def test_the_sweeper_ends_a_request_that_was_joined_without_a_plan(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request, state: str
    ) -> None:
        request = a_request(20)
        stepped.callers.accept(request)
        if state == "following":
            leader = a_request()
            stepped.callers.accept(leader)
            plan(ledger, leader, "bm25", flight=FLIGHT + "x")
            assert plan(ledger, request, "bm25", flight=FLIGHT + "x") == "follows"
        assert ledger.join(request.request_id, force=True) is not None
        ledger.hasten(request.request_id)
        assert ledger.sweep("sweeper").actions == (Action("end", request.request_id),)

    def test_the_sweeper_forgets_a_request_whose_entry_was_lost(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        stepped.lose(planned.request_id)
        stepped.step(5_000)
        assert ledger.sweep("sweeper").next_in_ms is None
        assert stepped.moments() == {}


class FollowingContract(LedgerContract):
    def test_a_flight_has_one_leader_and_ends_with_it(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        leader, follower = a_request(), a_request()
        accept(stepped, (leader, follower))
        assert plan(ledger, leader, "bm25", flight=FLIGHT + "x") == "planned"
        assert plan(ledger, follower, "bm25", flight=FLIGHT + "x") == "follows"
        ledger.finish(leader.request_id, by="fusion", tail=TAIL, is_complete=True)
        for request in (leader, follower):
            answer = the_result(stepped, request)["result"]
            assert (answer["request_id"], answer["status"]) == (request.request_id, "complete")
        assert stepped.flights() == {}
        assert [fields[b"by"] for fields in stepped.outbox()] == [b"fusion", b"leader"]

    def test_a_leader_that_ends_later_is_not_followed(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        slow, quick = a_request(10), a_request(9)
        accept(stepped, (slow, quick))
        plan(ledger, slow, "bm25", flight=FLIGHT + "x")
        assert plan(ledger, quick, "bm25", flight=FLIGHT + "x") == "planned"
        assert stepped.flights() == {FLIGHT + "x": quick.request_id}

    def test_a_leader_is_followed_only_if_its_end_is_not_later(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        """A request's end is its deadline less its finish reserve."""
        leader, early, same = a_request(10), a_request(10.04), a_request(10.05)
        accept(stepped, (leader, early, same))
        plan(ledger, leader, "bm25", finish_ms=10, flight=FLIGHT + "x")
        assert plan(ledger, same, "bm25", finish_ms=60, flight=FLIGHT + "x") == "follows"
        assert plan(ledger, early, "bm25", finish_ms=60, flight=FLIGHT + "x") == "planned"

    def test_a_follower_whose_leader_vanished_is_planned_anew(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        leader, follower = a_request(timeout_s=0.3), a_request()
        accept(stepped, (leader, follower))
        for request in (leader, follower):
            plan(ledger, request, "bm25", finish_ms=10, flight=FLIGHT + "x")
        stepped.lose(leader.request_id)
        # The sweeper misses the leader at the leader's next moment: 160 ms before its deadline the fusion is called.
        assert actions_within(stepped, 200) == {141: (Action("retrieve", follower.request_id),)}

    def test_a_follower_of_an_incomplete_answer_is_planned_anew_while_there_is_time(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        leader, early, late = a_request(), a_request(30), a_request(15)
        accept(stepped, (leader, early, late))
        for request in (leader, early, late):
            plan(ledger, request, "bm25", flight=FLIGHT + "x")
        stepped.step(7_501)
        # One has 22.5 of 30 s left, the other just under half its time.
        ledger.finish(leader.request_id, by="sweeper", tail=OTHER_TAIL, is_complete=False)
        assert the_result(stepped, late)["result"]["status"] == "degraded"
        assert ledger.sweep("sweeper").actions == (Action("retrieve", early.request_id),)
        assert plan(ledger, early, "bm25", flight=FLIGHT + "x") == "planned", "now it leads"

    def test_a_follower_that_is_planned_anew_is_resent_like_a_new_request(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        leader, follower = a_request(), a_request(30)
        accept(stepped, (leader, follower))
        plan(ledger, leader, "bm25", flight=FLIGHT + "x")
        sent = [Action("retrieve", follower.request_id)] * 2 + [Action("plan", follower.request_id)] * 2
        slow_planner = every(actions_within(stepped, 800))
        assert slow_planner == sent
        assert plan(ledger, follower, "bm25", flight=FLIGHT + "x") == "follows"
        ledger.finish(leader.request_id, by="sweeper", tail=OTHER_TAIL, is_complete=False)
        assert every(actions_within(stepped, 5_000)) == sent

    def test_an_id_that_was_lost_and_used_again_does_not_lead_its_old_flight(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        leader, follower = a_request(9), a_request()
        accept(stepped, (leader, follower))
        plan(ledger, leader, "bm25", flight=FLIGHT + "x")
        stepped.lose(leader.request_id)
        stepped.callers.accept(leader.model_copy(update={"top_k": 7}))
        plan(ledger, leader, "bm25", flight=FLIGHT + "y")
        assert plan(ledger, follower, "bm25", flight=FLIGHT + "x") == "planned"

    @pytest.mark.parametrize("ids", [("a", "b"), ("b", "a")])
    def test_a_leader_that_ends_at_the_same_moment_ends_its_follower(
        self, stepped: SteppedLedger, ledger: SingleSteps, ids: tuple[str, str]
    ) -> None:
        leader, follower = (a_request(1, request_id=request_id) for request_id in ids)
        accept(stepped, (leader, follower))
        for request in (leader, follower):
            plan(ledger, request, "bm25", flight=FLIGHT + "x")
        stepped.step(840)
        assert ledger.sweep("sweeper").actions == (Action("fuse", leader.request_id),)
        assert set(stepped.moments().values()) == {stepped.now_ms() + 100}
        stepped.step(100)
        assert ledger.sweep("sweeper").actions == (
            Action("end", leader.request_id),
            Action("end", follower.request_id),
        )
