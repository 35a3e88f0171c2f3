"""A request is accepted once, and planned by the sweeper if nobody else plans it."""

from __future__ import annotations

import pytest
from chorale_client.protocol_constants import ProtocolConstants

from tests.support.ledger.requests import a_request
from tests.support.ledger.script import (
    Script,
    accept,
    answer,
    ends_by,
    finish,
    know,
    overload,
    plan,
    queue,
    start,
    submit,
    sweep,
    wait,
)
from tests.support.ledger.stepped_ledger import SteppedLedger


def test_an_id_is_accepted_once(stepped: SteppedLedger) -> None:
    request = a_request()
    first = stepped.callers.accept(request)
    assert (first.is_new, first.deadline_ms - first.accepted_at_ms) == (True, 10_000)
    stepped.step(7)
    again = stepped.callers.accept(request)
    assert (again.is_new, again.state) == (False, "accepted")
    assert (again.accepted_at_ms, again.deadline_ms) == (first.accepted_at_ms, first.deadline_ms)


@pytest.mark.parametrize(("within_s", "ends_after_ms"), [(7.5, 7_500), (0.01, 50), (-3, 50)])
def test_a_late_callers_request_ends_within_the_time_it_has_left(
    script: Script, within_s: float, ends_after_ms: int
) -> None:
    script >> accept(within_s=within_s) << "new"
    assert script.entry().deadline_ms - script.entry().accepted_at_ms == ends_after_ms


def test_an_id_of_a_different_request_is_refused_until_the_ttl_of_its_answer_is_over(script: Script) -> None:
    script >> accept() << "new" >> accept(top_k=7) << "conflict"
    script >> finish() >> accept(top_k=7) << "conflict" >> accept() << "ended"
    script >> wait(600_000) >> accept() << "ended" >> wait(1) >> accept() << "new"


def test_the_sweeper_resends_an_unplanned_request_twice_and_then_plans_it(
    script: Script, protocol: ProtocolConstants
) -> None:
    """The second plan is for a sweeper that died after the first."""
    every_ms = protocol.plan_every_ms
    sent = {1: ["retrieve"], 1 + 1: ["retrieve"], 1 + 1 + 2: ["plan"], 1 + 1 + 2 + 3: ["plan"]}
    script >> accept(timeout_s=3) >> sweep(2_900) << {at * every_ms: actions for at, actions in sent.items()}


def test_the_shortest_request_is_ended_before_its_deadline(script: Script) -> None:
    # A fifth of the 50 ms is kept for the terminal write.
    script >> accept(timeout_s=0.05) >> sweep(45) << {40: ["end"]}


# Accepted and planned in one step


def test_a_request_is_accepted_and_planned_at_once(script: Script) -> None:
    script >> know(7) >> submit("bm25") << ("new", "planned", []) >> queue("bm25") << 1
    script >> start("bm25") << 10_000 - 160


@pytest.mark.parametrize(
    ("generation", "cached"), [(None, None), (6, None), (8, None), (7, b"an answer")], ids=str
)
def test_a_plan_for_another_generation_or_a_cached_question_is_not_written(
    script: Script, generation: int | None, cached: bytes | None
) -> None:
    answers = [cached] if cached else []
    script >> know(generation, cached) >> submit("bm25") << ("new", None, answers) >> queue("bm25") << 0
    script >> plan("bm25") << "planned"


def test_neither_a_known_nor_a_refused_request_is_planned(script: Script) -> None:
    script >> know(7) >> overload() >> submit("bm25") << ("refused", None, []) >> queue("bm25") << 0
    script >> overload(None) >> submit("bm25") << ("new", "planned", [])
    script >> accept("other") >> submit("bm25", of="other") << ("accepted", None, []) >> queue("bm25") << 1


# Under overload, new requests end at once as refused


def test_under_overload_a_request_ends_at_once_and_says_when_to_ask_again(script: Script) -> None:
    script >> overload(1_500) >> accept(correlation_id="mine") << "refused" >> answer() << "refused"
    refused = (script.result() or {})["result"]
    assert (refused["correlation_id"], refused["retry_after_s"], refused["took_ms"]) == ("mine", 1.5, 0)
    assert [(one["where"], one["reason"]) for one in refused["degraded"]] == [("plan", "overload")]
    assert [one["status"] for one in refused["questions"]] == ["refused"]
    script >> ends_by() << [("it", "admission")]
    assert (script.stepped.moments(), script.stepped.view().entries) == ({}, {})


def test_a_request_accepted_before_the_overload_goes_on(planned: Script) -> None:
    planned >> overload() >> accept() << "planned" >> finish() >> accept() << "ended"


def test_a_refused_request_may_be_sent_again_under_its_id(script: Script) -> None:
    script >> overload(1_500) >> accept() << "refused" >> wait(1_000) >> accept() << "refused"
    script >> ends_by() << [("it", "admission")] * 2
    # An old refusal is no answer.
    script >> overload(None) >> accept() << "new" >> answer() << None
    script >> finish() >> answer() << "complete"


def test_the_id_of_a_refused_request_cannot_name_a_different_one(script: Script) -> None:
    script >> overload() >> accept() << "refused" >> overload(None) >> accept(top_k=7) << "conflict"
