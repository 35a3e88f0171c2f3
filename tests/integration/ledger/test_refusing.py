"""Under overload, new requests end at once as refused."""

from __future__ import annotations

from tests.support.ledger.script import Script, accept, answer, ends_by, finish, overload, wait


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
