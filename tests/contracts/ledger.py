"""The promises of the ledger, tested to the millisecond.  A subclass provides a `stepped` fixture."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from chorale_client import Request, RequestIdConflict, make_request
from chorale_client.ledger import Accepted
from chorale_client.words import QUEUE_FUSION

from ledger.protocol import Action, Chord, Part, PlanOutcome
from models.envelope import Envelope
from tests.support.ledger.ledger_plans import plan_of
from tests.support.ledger.single_steps import SingleSteps
from tests.support.ledger.stepped_ledger import ANSWER, SteppedLedger

CALLBACK = b"message of fuse"
TAIL = '"v":1,"status":"complete","questions":[]}'
OTHER_TAIL = '"v":1,"status":"degraded","questions":[]}'


def a_request(timeout_s: float = 10, **options: Any) -> Request:
    return make_request("bread", timeout_s=timeout_s, **options)


def plan(
    ledger: SingleSteps,
    request: Request,
    *branches: str,
    limit_ms: int = 10_000,
    resend_ms: int = 5_000,
    finish_ms: int = 60,
    fusion_ms: int = 160,
    flight: str | None = None,
    hedge_ms: int | None = None,
    decisive: Collection[str] = (),
) -> str:
    parts = [
        Part(
            name,
            f"queue.{name}",
            limit_ms,
            resend_ms,
            f"message of {name}".encode(),
            hedge_ms,
            name in decisive,
        )
        for name in branches
    ]
    return ledger.plan(request.request_id, Chord(plan_of(parts), parts, finish_ms, fusion_ms, flight))


def ok(branch: str, detail: str = "", *, attempt: int = 1) -> Envelope:
    return Envelope(branch, "ok", detail=detail, attempt=attempt)


def failed(branch: str, reason: str = "error", *, attempt: int = 1) -> Envelope:
    return Envelope.failed(branch, reason, attempt=attempt)


def the_result(stepped: SteppedLedger, request: Request) -> dict[str, Any]:
    """Celery's result document."""
    result = stepped.callers.result(request.request_id)
    assert result is not None
    document: dict[str, Any] = json.loads(result)
    return document


def actions_within(stepped: SteppedLedger, ms: int) -> dict[int, tuple[Action, ...]]:
    """The actions of a sweeper that runs at each next moment within this time, by milliseconds from now."""
    found = {}
    begin_ms = stepped.now_ms()
    while (at_ms := stepped.now_ms() - begin_ms) <= ms:
        sweep = stepped.ledger.sweep("the-only-sweeper")
        if sweep.actions:
            found[at_ms] = sweep.actions
        stepped.step(1 if sweep.next_in_ms is None else max(1, min(sweep.next_in_ms, ms + 1)))
    return found


def every(found: dict[int, tuple[Action, ...]]) -> list[Action]:
    return [action for actions in found.values() for action in actions]


def accept(stepped: SteppedLedger, requests: Iterable[Request]) -> None:
    for request in requests:
        stepped.callers.accept(request)


class LedgerContract:
    @pytest.fixture
    def ledger(self, stepped: SteppedLedger) -> SingleSteps:
        return stepped.ledger

    @pytest.fixture
    def planned(self, stepped: SteppedLedger) -> Request:
        """A request with two branches, `bm25` and `vector`."""
        request = a_request()
        stepped.callers.accept(request)
        assert plan(stepped.ledger, request, "bm25", "vector") == "planned"
        return request


class AcceptingContract(LedgerContract):
    def test_an_id_is_accepted_once(self, stepped: SteppedLedger) -> None:
        request = a_request()
        first = stepped.callers.accept(request)
        assert (first.is_new, first.deadline_ms - first.accepted_at_ms) == (True, 10_000)
        stepped.step(7)
        again = stepped.callers.accept(request)
        assert (again.is_new, again.state) == (False, "accepted")
        assert (again.accepted_at_ms, again.deadline_ms) == (first.accepted_at_ms, first.deadline_ms)

    def test_a_late_callers_request_ends_within_the_time_it_has_left(self, stepped: SteppedLedger) -> None:
        for left_s, ends_after_ms in ((7.5, 7_500), (0.01, 50), (-3, 50)):
            accepted = stepped.callers.accept(a_request(), within_s=left_s)
            assert accepted.deadline_ms - accepted.accepted_at_ms == ends_after_ms

    def test_an_id_of_a_different_request_is_refused_even_after_its_end(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request()
        other = request.model_copy(update={"top_k": 7})
        stepped.callers.accept(request)
        with pytest.raises(RequestIdConflict, match=request.request_id):
            stepped.callers.accept(other)
        ledger.finish(request.request_id, by="fusion", tail=TAIL, is_complete=True)
        with pytest.raises(RequestIdConflict, match=request.request_id):
            stepped.callers.accept(other)
        assert stepped.callers.accept(request).result is not None

    def test_a_request_id_can_be_used_again_after_the_ttl_of_its_answer(
        self, stepped: SteppedLedger, planned: Request
    ) -> None:
        stepped.ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True)
        stepped.step(600_000)
        assert not stepped.callers.accept(planned).is_new
        stepped.step(1)
        assert stepped.callers.accept(planned).is_new

    def test_the_sweeper_resends_an_unplanned_request_twice_and_then_plans_it(
        self, stepped: SteppedLedger
    ) -> None:
        """The second plan is for a sweeper that died after the first."""
        request = a_request(timeout_s=3)
        stepped.callers.accept(request)
        again, by_itself = (Action("retrieve", request.request_id),), (Action("plan", request.request_id),)
        # After 100 ms, then 100, 200 and 300 ms later.
        assert actions_within(stepped, 2_900) == {100: again, 200: again, 400: by_itself, 700: by_itself}

    def test_the_shortest_request_is_ended_before_its_deadline(self, stepped: SteppedLedger) -> None:
        request = a_request(timeout_s=0.05)
        stepped.callers.accept(request)
        # A fifth of the 50 ms is kept for the terminal write.
        assert stepped.moments() == {request.request_id: stepped.now_ms() + 40}
        found = actions_within(stepped, 45)
        assert found == {40: (Action("end", request.request_id),)}

    def test_moments_are_whole_milliseconds(self, stepped: SteppedLedger) -> None:
        request = a_request(timeout_s=0.203)
        accepted = stepped.callers.accept(request)
        stepped.step(100)
        stepped.ledger.sweep("sweeper")
        # A fifth of 203 ms is 40.6; 40 are kept.
        assert stepped.moments() == {request.request_id: accepted.deadline_ms - 40}


class PlanningContract(LedgerContract):
    def test_the_plan_is_written_and_published_once(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        assert plan(ledger, planned, "bm25", "vector") == "known"
        assert stepped.queue("queue.bm25") == [b"message of bm25"]
        assert stepped.queue("queue.vector") == [b"message of vector"]

    def test_an_ended_request_is_not_planned(self, stepped: SteppedLedger, ledger: SingleSteps) -> None:
        assert plan(ledger, a_request(), "bm25") == "closed"
        assert stepped.queue("queue.bm25") == []

    def test_a_started_part_gets_the_time_left_until_join_at(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        stepped.step(40)
        started = ledger.start(planned.request_id, "bm25")
        assert started is not None
        # join_at is the deadline less the fusion reserve: 10,000 - 160 ms.
        assert (started.left_ms, started.since_accepted_ms) == (9_800, 40)

    def test_an_unexpected_branch_is_turned_away(self, ledger: SingleSteps, planned: Request) -> None:
        assert ledger.start(planned.request_id, "hyde") is None
        assert ledger.report(planned.request_id, "hyde", ok("hyde")) == "closed"

    def test_nothing_is_started_or_reported_before_the_plan(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request()
        stepped.callers.accept(request)
        assert ledger.start(request.request_id, "bm25") is None
        assert ledger.report(request.request_id, "bm25", ok("bm25")) == "closed"


class SubmittingContract(LedgerContract):
    """A plan for generation 7 that was made before its request was accepted."""

    def submit(
        self, stepped: SteppedLedger, request: Request
    ) -> tuple[Accepted, PlanOutcome | None, list[bytes | None]]:
        parts = [Part("bm25", "queue.bm25", 1_000, 500, b"message of bm25")]
        chord = Chord(plan_of(parts), parts, finish_reserve_ms=60, fusion_reserve_ms=160)
        accepted, outcome, cached = stepped.ledger.submit(
            stepped.callers, request, chord, 7, ["other", ANSWER]
        )
        return accepted, outcome, list(cached)

    def test_a_request_is_accepted_and_planned_at_once(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        stepped.know(7, None)
        request = a_request()
        accepted, outcome, cached = self.submit(stepped, request)
        assert (accepted.is_new, outcome, any(cached)) == (True, "planned", False)
        assert stepped.queue("queue.bm25") == [b"message of bm25"]
        assert ledger.start(request.request_id, "bm25") is not None

    @pytest.mark.parametrize("generation", [None, 6, 8])
    def test_a_plan_for_another_generation_is_not_written(
        self, stepped: SteppedLedger, ledger: SingleSteps, generation: int | None
    ) -> None:
        stepped.know(generation, None)
        request = a_request()
        accepted, outcome, cached = self.submit(stepped, request)
        assert (accepted.is_new, outcome, any(cached)) == (True, None, False)
        assert stepped.queue("queue.bm25") == []
        assert plan(ledger, request, "bm25") == "planned", "its caller plans it anew"

    def test_cached_answers_are_returned_and_the_plan_is_not_written(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        stepped.know(7, b"an answer")
        request = a_request()
        accepted, outcome, cached = self.submit(stepped, request)
        assert (accepted.is_new, outcome, cached) == (True, None, [None, b"an answer"])
        assert stepped.queue("queue.bm25") == []
        assert plan(ledger, request, "bm25") == "planned"

    def test_a_known_request_is_not_planned_again(self, stepped: SteppedLedger, ledger: SingleSteps) -> None:
        stepped.know(7, None)
        request = a_request()
        stepped.callers.accept(request)
        accepted, outcome, _ = self.submit(stepped, request)
        assert (accepted.is_new, accepted.state, outcome) == (False, "accepted", None)
        assert stepped.queue("queue.bm25") == []
        with pytest.raises(RequestIdConflict):
            self.submit(stepped, request.model_copy(update={"top_k": 7}))

    def test_a_refused_request_is_not_planned_until_it_is_sent_again(self, stepped: SteppedLedger) -> None:
        stepped.know(7, None)
        request = a_request()
        stepped.overload(1_500)
        accepted, outcome, _ = self.submit(stepped, request)
        assert (accepted.state, outcome) == ("refused", None)
        assert stepped.queue("queue.bm25") == []
        stepped.overload(None)
        assert self.submit(stepped, request)[1] == "planned"


class ReportingContract(LedgerContract):
    def test_only_the_last_report_pushes_the_callback(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        assert ledger.report(planned.request_id, "bm25", ok("bm25")) == "counted"
        assert stepped.queue(QUEUE_FUSION) == []
        assert ledger.report(planned.request_id, "vector", ok("vector"), callback=CALLBACK) == "joined"
        assert stepped.queue(QUEUE_FUSION) == [CALLBACK]

    def test_the_first_answer_of_a_branch_wins(self, ledger: SingleSteps, planned: Request) -> None:
        ledger.report(planned.request_id, "bm25", ok("bm25", "first"))
        assert ledger.report(planned.request_id, "bm25", ok("bm25", "second")) == "duplicate"
        entry = ledger.load(planned.request_id)
        assert entry is not None
        assert json.loads(entry.envelopes["bm25"])["detail"] == "first"

    def test_a_branch_reported_twice_counts_once(self, ledger: SingleSteps, planned: Request) -> None:
        for _ in range(10):
            ledger.report(planned.request_id, "bm25", ok("bm25"))
        assert ledger.join(planned.request_id) is None, "vector has not answered yet"

    def test_an_answer_replaces_a_failure_but_a_failure_never_replaces_an_answer(
        self, ledger: SingleSteps, planned: Request
    ) -> None:
        failed = Envelope.failed("bm25", "error")
        assert ledger.report(planned.request_id, "bm25", failed) == "counted"
        assert ledger.report(planned.request_id, "bm25", ok("bm25")) == "replaced"
        assert ledger.report(planned.request_id, "bm25", failed) == "duplicate"
        entry = ledger.load(planned.request_id)
        assert entry is not None
        assert json.loads(entry.envelopes["bm25"])["status"] == "ok"

    def test_a_report_after_the_snapshot_changes_nothing(self, ledger: SingleSteps, planned: Request) -> None:
        ledger.report(planned.request_id, "bm25", ok("bm25"))
        snapshot = ledger.join(planned.request_id, force=True)
        assert snapshot is not None
        assert ledger.report(planned.request_id, "vector", ok("vector")) == "closed"
        again = ledger.load(planned.request_id)
        assert again is not None
        assert again.envelopes.keys() == snapshot.envelopes.keys() == {"bm25"}

    def test_a_report_for_an_earlier_request_with_the_same_id_is_turned_away(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        """For example of a worker that hung since before the earlier request was lost."""
        started = ledger.start(planned.request_id, "bm25")
        assert started is not None
        stepped.lose(planned.request_id)
        stepped.step(1)
        accepted = stepped.callers.accept(planned.model_copy(update={"top_k": 7}))
        plan(ledger, planned, "bm25", "vector")

        def report(accepted_at_ms: int | None) -> str:
            return ledger.report(planned.request_id, "bm25", ok("bm25"), accepted_at_ms=accepted_at_ms)

        assert report(started.accepted_at_ms) == "closed"
        assert report(accepted.accepted_at_ms) == "counted"
        assert report(None) == "duplicate", "a report without accepted_at is taken"


class JoiningContract(LedgerContract):
    def test_a_callback_that_comes_too_early_does_nothing(
        self, ledger: SingleSteps, planned: Request
    ) -> None:
        assert ledger.join(planned.request_id) is None
        assert ledger.report(planned.request_id, "bm25", ok("bm25")) == "counted"

    def test_only_one_fusion_takes_a_request(self, ledger: SingleSteps, planned: Request) -> None:
        ledger.report(planned.request_id, "bm25", ok("bm25"))
        ledger.report(planned.request_id, "vector", ok("vector"))
        assert ledger.join(planned.request_id) is not None
        assert ledger.join(planned.request_id) is None

    def test_from_join_at_on_the_fusion_takes_the_reports_that_have_come(
        self, stepped: SteppedLedger, ledger: SingleSteps
    ) -> None:
        request = a_request()
        stepped.callers.accept(request)
        plan(ledger, request, "bm25", "vector", limit_ms=50)
        ledger.report(request.request_id, "bm25", ok("bm25"))
        stepped.step(49)
        assert ledger.join(request.request_id) is None
        stepped.step(1)
        snapshot = ledger.join(request.request_id)
        assert snapshot is not None
        assert snapshot.envelopes.keys() == {"bm25"}
        assert snapshot.state == "planned"


class EndingContract(LedgerContract):
    def test_the_first_terminal_write_wins(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        assert ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True) is not None
        assert ledger.finish(planned.request_id, by="sweeper", tail=OTHER_TAIL, is_complete=False) is None
        assert the_result(stepped, planned)["result"]["status"] == "complete"

    def test_the_outbox_entry_has_every_field_for_the_audit(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        ledger.report(planned.request_id, "bm25", ok("bm25"))
        stepped.step(30)
        ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True)
        (fields,) = stepped.outbox()
        assert fields == {
            b"id": planned.request_id.encode(),
            b"accepted_at": b"%d" % (stepped.now_ms() - 30),
            b"ended_at": b"%d" % stepped.now_ms(),
            b"by": b"fusion",
            b"request": planned.model_dump_json().encode(),
            b"plan": b'{"v":1,"branches":[{"name":"bm25","queue":"queue.bm25"},{"name":"vector","queue":"queue.vector"}]}',
            b"answer": json.dumps(the_result(stepped, planned)["result"], separators=(",", ":")).encode(),
            b"envelope:bm25": ok("bm25").to_wire(),
        }

    def test_a_caller_that_waited_in_vain_ends_a_request_whose_entry_was_lost(
        self, stepped: SteppedLedger
    ) -> None:
        request = a_request(correlation_id='quoted "id"')
        accepted = stepped.callers.accept(request)
        stepped.lose(request.request_id)
        result = stepped.callers.finish_failed(request, accepted.accepted_at_ms)
        answer = json.loads(result)["result"]
        assert (answer["status"], answer["correlation_id"]) == ("failed", 'quoted "id"')
        assert len(stepped.outbox()) == 1
        assert stepped.callers.finish_failed(request, accepted.accepted_at_ms) == result
        assert stepped.callers.result(request.request_id) == result
        assert len(stepped.outbox()) == 1

    @pytest.mark.parametrize(
        ("is_joined", "missing"),
        [(False, {"where": "fuse", "reason": "not_started"}), (True, {"where": "fuse", "reason": "timeout"})],
    )
    def test_a_caller_that_waited_in_vain_reports_the_state_of_the_request(
        self,
        stepped: SteppedLedger,
        ledger: SingleSteps,
        planned: Request,
        is_joined: bool,
        missing: dict[str, str],
    ) -> None:
        if is_joined:
            assert ledger.join(planned.request_id, force=True)
        answer = json.loads(stepped.callers.finish_failed(planned, stepped.now_ms()))["result"]
        assert [{**one, "detail": ""} for one in answer["degraded"]] == [{**missing, "detail": ""}]

    def test_took_ms_is_measured_by_the_ledgers_clock(
        self, stepped: SteppedLedger, ledger: SingleSteps, planned: Request
    ) -> None:
        stepped.step(123)
        assert ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True) == 123
        assert the_result(stepped, planned)["result"]["took_ms"] == 123
