"""The promises of the ledger for requests that are cancelled, decided by a failure, hedged or refused."""

from __future__ import annotations

import json

import pytest
from chorale_client import Request, RequestIdConflict
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
    failed,
    ok,
    plan,
    the_result,
)
from tests.support.ledger.single_steps import SingleSteps
from tests.support.ledger.stepped_ledger import SteppedLedger


class CancellingContract(LedgerContract):
    def test_a_cancelled_request_has_ended_without_hits(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        ledger.report(planned.request_id, "bm25", ok("bm25"))
        stepped.step(30)
        result = stepped.callers.cancel(planned.request_id)
        assert result == stepped.callers.result(planned.request_id)
        answer = the_result(stepped, planned)["result"]
        assert (answer["status"], answer["took_ms"]) == ("cancelled", 30)
        assert [(one["where"], one["reason"]) for one in answer["degraded"]] == [("plan", "cancelled")]
        assert [(one["status"], one["hits"]) for one in answer["questions"]] == [("cancelled", [])]
        (fields,) = stepped.outbox()
        assert (fields[b"by"], b"envelope:bm25" in fields) == (b"client", True)
        assert stepped.moments() == {}

    def test_no_worker_or_sweeper_continues_a_cancelled_request(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        ledger.start(planned.request_id, "bm25")
        stepped.callers.cancel(planned.request_id)
        assert ledger.start(planned.request_id, "vector") is None
        assert ledger.report(planned.request_id, "bm25", ok("bm25")) == "closed"
        assert ledger.join(planned.request_id, force=True) is None
        assert ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True) is None
        assert every(actions_within(stepped, 500)) == []
        assert len(stepped.outbox()) == 1

    def test_every_question_of_a_cancelled_request_is_cancelled(self, stepped: SteppedLedger) -> None:
        request = a_request().model_copy(update={"questions": a_request().questions * 3})
        stepped.callers.accept(request)
        stepped.callers.cancel(request.request_id)
        questions = the_result(stepped, request)["result"]["questions"]
        assert [one["status"] for one in questions] == ["cancelled"] * 3

    def test_cancelling_an_ended_request_keeps_its_answer(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True)
        before = stepped.callers.result(planned.request_id)
        assert stepped.callers.cancel(planned.request_id) == before
        assert len(stepped.outbox()) == 1

    def test_cancelling_an_unknown_id_does_nothing(self, stepped: SteppedLedger) -> None:
        assert stepped.callers.cancel("never-sent") is None
        assert stepped.outbox() == []

    def test_followers_of_a_cancelled_leader_are_planned_anew_even_late(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        leader, follower = a_request(), a_request()
        accept(stepped, (leader, follower))
        for request in (leader, follower):
            plan(ledger, request, "bm25", flight=FLIGHT + "x")
        stepped.step(9_000)
        stepped.callers.cancel(leader.request_id)
        assert stepped.callers.result(follower.request_id) is None
        assert every(actions_within(stepped, 50)) == [Action("retrieve", follower.request_id)]
        assert plan(ledger, follower, "bm25", flight=FLIGHT + "x") == "planned", "now it leads"

    def test_a_cancelled_follower_leaves_its_leader_alone(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        leader, follower = a_request(), a_request()
        accept(stepped, (leader, follower))
        for request in (leader, follower):
            plan(ledger, request, "bm25", flight=FLIGHT + "x")
        stepped.callers.cancel(follower.request_id)
        assert stepped.flights() == {FLIGHT + "x": leader.request_id}
        ledger.finish(leader.request_id, by="fusion", tail=TAIL, is_complete=True)
        assert the_result(stepped, leader)["result"]["status"] == "complete"
        assert the_result(stepped, follower)["result"]["status"] == "cancelled"


class DecidingContract(LedgerContract):
    @pytest.fixture
    def strict(self, stepped: SteppedLedger, ledger: SingleSteps) -> Request:
        """A request with three branches that fails without `vector`."""
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", "hyde", "vector", decisive=["vector"])
        return request

    def test_the_failure_of_a_decisive_branch_pushes_the_callback_at_once(
        self, stepped: SteppedLedger, ledger: SingleSteps, strict: Request
    ) -> None:
        assert ledger.report(strict.request_id, "vector", failed("vector"), callback=CALLBACK) == "joined"
        assert stepped.queue(QUEUE_FUSION) == [CALLBACK]
        snapshot = ledger.join(strict.request_id)
        assert snapshot is not None
        assert snapshot.decided_by == "vector"
        assert snapshot.envelopes.keys() == {"vector"}

    def test_the_ledger_waits_for_no_branch_after_a_decisive_failure(
        self, ledger: SingleSteps, strict: Request
    ) -> None:
        ledger.start(strict.request_id, "hyde")
        ledger.report(strict.request_id, "vector", failed("vector"))
        assert ledger.start(strict.request_id, "bm25") is None
        assert ledger.start(strict.request_id, "vector") is None
        assert ledger.report(strict.request_id, "hyde", ok("hyde")) == "closed"
        assert ledger.report(strict.request_id, "vector", ok("vector")) == "closed", "it is decided"

    def test_the_failure_of_a_branch_that_is_not_decisive_does_not_end_the_request(
        self, ledger: SingleSteps, strict: Request
    ) -> None:
        assert ledger.report(strict.request_id, "bm25", failed("bm25")) == "counted"
        assert ledger.start(strict.request_id, "hyde") is not None
        assert ledger.join(strict.request_id) is None

    def test_an_answer_of_a_decisive_branch_does_not_end_the_request(
        self, ledger: SingleSteps, strict: Request
    ) -> None:
        assert ledger.report(strict.request_id, "vector", ok("vector")) == "counted"
        assert ledger.report(strict.request_id, "vector", failed("vector")) == "duplicate"
        assert ledger.join(strict.request_id) is None

    def test_a_callback_that_was_lost_is_sent_again(
        self, stepped: SteppedLedger, ledger: SingleSteps, strict: Request
    ) -> None:
        ledger.report(strict.request_id, "vector", failed("vector"))
        stepped.drop(QUEUE_FUSION)
        again = (Action("fuse", strict.request_id),)
        # 250 ms after the report, and no part is sent again.
        assert actions_within(stepped, 300) == {250: again}
        stepped.drop(QUEUE_FUSION)
        assert actions_within(stepped, 240) == {0: again}, "500 ms after the report"


class HedgingContract(LedgerContract):
    @pytest.fixture
    def hedged(self, stepped: SteppedLedger, ledger: SingleSteps) -> Request:
        """A request with two branches: `bm25` has answered, and `vector` was sent a second time."""
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", "vector", hedge_ms=80)
        ledger.report(request.request_id, "bm25", ok("bm25"))
        ledger.start(request.request_id, "vector")
        assert actions_within(stepped, 100) == {80: (Action("hedge", request.request_id, "vector"),)}
        return request

    def test_a_part_without_an_answer_is_hedged_once(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", resend_ms=200, hedge_ms=80)
        stepped.drop("queue.bm25")
        hedge, again = (Action(do, request.request_id, "bm25") for do in ("hedge", "part"))
        # The resend of a lost message comes besides, after 200 ms, and again 500 ms later.
        assert actions_within(stepped, 2_000) == {80: (hedge,), 200: (again,), 700: (again,)}

    def test_a_part_that_still_waits_in_its_queue_is_hedged(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", resend_ms=50, hedge_ms=80)
        assert actions_within(stepped, 700) == {80: (Action("hedge", request.request_id, "bm25"),)}

    def test_a_hedge_is_not_sent_beyond_the_limit_of_its_branch(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", limit_ms=80, hedge_ms=80)
        assert actions_within(stepped, 100) == {80: (Action("fuse", request.request_id),)}

    def test_the_first_answer_of_either_attempt_wins(self, ledger: SingleSteps, hedged: Request) -> None:
        assert ledger.start(hedged.request_id, "vector") is not None, "the second attempt begins"
        assert (
            ledger.report(hedged.request_id, "vector", ok("vector", attempt=2), callback=CALLBACK) == "joined"
        )
        assert ledger.report(hedged.request_id, "vector", ok("vector")) == "duplicate"
        assert envelope_of(ledger, hedged)["attempt"] == 2

    @pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
    def test_a_failure_counts_only_when_the_other_attempt_failed_too(
        self, ledger: SingleSteps, hedged: Request, first: int, second: int
    ) -> None:
        one, other = failed("vector", attempt=first), failed("vector", attempt=second)
        assert ledger.report(hedged.request_id, "vector", one) == "waits"
        assert ledger.join(hedged.request_id) is None
        assert ledger.report(hedged.request_id, "vector", one) == "duplicate", "of the same attempt"
        assert ledger.report(hedged.request_id, "vector", other, callback=CALLBACK) == "joined"

    def test_an_answer_wins_over_the_failure_of_the_other_attempt(
        self, ledger: SingleSteps, hedged: Request
    ) -> None:
        assert ledger.report(hedged.request_id, "vector", failed("vector")) == "waits"
        assert (
            ledger.report(hedged.request_id, "vector", ok("vector", attempt=2), callback=CALLBACK) == "joined"
        )
        assert envelope_of(ledger, hedged)["status"] == "ok"

    def test_a_failure_is_named_if_the_other_attempt_never_reports(
        self, stepped: SteppedLedger, ledger: SingleSteps, hedged: Request
    ) -> None:
        ledger.report(hedged.request_id, "vector", failed("vector", "bad_index"))
        stepped.step(10_000)
        snapshot = ledger.join(hedged.request_id)
        assert snapshot is not None
        assert json.loads(snapshot.envelopes["vector"])["reason"] == "bad_index"
        ledger.finish(hedged.request_id, by="fusion", tail=OTHER_TAIL, is_complete=False)
        assert json.loads(stepped.outbox()[0][b"envelope:vector"])["reason"] == "bad_index"

    def test_a_failure_before_the_hedge_counts_at_once(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", "vector", hedge_ms=80)
        ledger.report(request.request_id, "vector", ok("vector"))
        assert ledger.report(request.request_id, "bm25", failed("bm25"), callback=CALLBACK) == "joined"
        assert every(actions_within(stepped, 200)) == []

    def test_a_decisive_branch_decides_when_both_attempts_failed(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", "vector", hedge_ms=80, decisive=["vector"])
        actions_within(stepped, 100)
        assert ledger.report(request.request_id, "vector", failed("vector")) == "waits"
        assert ledger.start(request.request_id, "bm25") is not None
        assert (
            ledger.report(request.request_id, "vector", failed("vector", attempt=2), callback=CALLBACK)
            == "joined"
        )


class RefusingContract(LedgerContract):
    def test_under_overload_a_request_ends_at_once_and_says_when_to_ask_again(
        self, stepped: SteppedLedger
    ) -> None:
        stepped.overload(1_500)
        request = a_request(correlation_id="mine")
        accepted = stepped.callers.accept(request)
        assert (accepted.state, accepted.is_new) == ("refused", False)
        assert accepted.result == stepped.callers.result(request.request_id)
        answer = the_result(stepped, request)["result"]
        assert (answer["status"], answer["correlation_id"]) == ("refused", "mine")
        assert (answer["retry_after_s"], answer["took_ms"]) == (1.5, 0)
        assert [(one["where"], one["reason"]) for one in answer["degraded"]] == [("plan", "overload")]
        assert [one["status"] for one in answer["questions"]] == ["refused"]
        (fields,) = stepped.outbox()
        assert (fields[b"id"], fields[b"by"]) == (request.request_id.encode(), b"admission")
        assert (stepped.moments(), stepped.view().entries) == ({}, {})

    def test_a_request_accepted_before_the_overload_goes_on(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        stepped.overload(1_500)
        assert stepped.callers.accept(planned).state == "planned"
        ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True)
        assert stepped.callers.accept(planned).state == "ended"

    def test_a_refused_request_may_be_sent_again_under_its_id(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        stepped.overload(1_500)
        request = a_request()
        stepped.callers.accept(request)
        stepped.step(1_000)
        assert stepped.callers.accept(request).state == "refused", "too early"
        assert len(stepped.outbox()) == 2
        stepped.overload(None)
        assert stepped.callers.accept(request).is_new
        assert stepped.callers.result(request.request_id) is None, "an old refusal is no answer"
        ledger.finish(request.request_id, by="fusion", tail=TAIL, is_complete=True)
        assert the_result(stepped, request)["result"]["status"] == "complete"

    def test_the_id_of_a_refused_request_cannot_name_a_different_one(self, stepped: SteppedLedger) -> None:
        stepped.overload(1_500)
        request = a_request()
        stepped.callers.accept(request)
        stepped.overload(None)
        with pytest.raises(RequestIdConflict, match=request.request_id):
            stepped.callers.accept(request.model_copy(update={"top_k": 7}))


def envelope_of(ledger: SingleSteps, request: Request, branch: str = "vector") -> dict[str, object]:
    entry = ledger.load(request.request_id)
    assert entry is not None
    envelope: dict[str, object] = json.loads(entry.envelopes[branch])
    return envelope
