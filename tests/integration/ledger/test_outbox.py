"""What ended waits in the outbox for the audit tables; a full outbox accepts no request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chorale_client import Request

from models.branch_result import BranchResult
from models.hits import Hit, Ranking
from tests.support.ledger.requests import BODY, a_request, failed, plan
from tests.support.ledger.stepped_ledger import SteppedLedger

FOUND = BranchResult("bm25", "ok", rankings=(Ranking((Hit("a#0", "a", 1.0),)),), ms=1.5)


def end(stepped: SteppedLedger, *, completed: str = "") -> Request:
    """An ended request: one branch found something, one found nothing, one failed."""
    request = a_request()
    assert stepped.callers.accept(request).is_new
    plan(stepped.ledger, request, "bm25", "vector", "hyde")
    for branch_result in (FOUND, BranchResult("vector", "empty", ms=2.5), failed("hyde", "timeout")):
        stepped.ledger.report(request.request_id, branch_result.branch, branch_result)
    stepped.ledger.finish(request.request_id, by="fusion", body=BODY, is_complete=True, completed=completed)
    return request


def branch_results(stepped: SteppedLedger) -> list[dict[str, Any]]:
    """The branch results of each entry of the outbox, by branch."""
    return [
        {
            name.decode().removeprefix("result:"): json.loads(value)
            for name, value in fields.items()
            if name.startswith(b"result:")
        }
        for fields in stepped.outbox()
    ]


def the_result(stepped: SteppedLedger, request: Request) -> dict[str, Any]:
    """Celery's result document."""
    document: dict[str, Any] = json.loads(stepped.callers.result(request.request_id) or b"")
    return document


def test_a_half_full_outbox_leaves_out_the_candidates_only(stepped: SteppedLedger) -> None:
    stepped.bound_outbox(4)
    requests = [end(stepped) for _ in range(4)]
    assert [fields[b"id"].decode() for fields in stepped.outbox()] == [one.request_id for one in requests]
    first, second, third, fourth = branch_results(stepped)
    assert first == second
    assert first["bm25"] == json.loads(FOUND.to_wire())
    brief = {"v": 1, "branch": "bm25", "status": "ok", "rankings": [], "left_out": True}
    assert third == fourth == {**first, "bm25": brief}
    assert BranchResult.from_wire("bm25", json.dumps(brief)).status == "ok"


def test_completed_scores_are_for_the_audit_alone_and_left_out_with_the_candidates(
    stepped: SteppedLedger,
) -> None:
    stepped.bound_outbox(4)
    scores = '[{"vector":{"a#0":0.25}}]'
    ended = [end(stepped, completed=one) for one in ("", scores, scores)]
    assert [fields.get(b"completed") for fields in stepped.outbox()] == [None, scores.encode(), None]
    first, second, _ = (the_result(stepped, request)["result"] for request in ended)
    assert second == {**first, "request_id": ended[1].request_id}


def test_a_full_outbox_refuses_new_requests_and_only_counts_them(stepped: SteppedLedger) -> None:
    stepped.bound_outbox(2)
    ended = [end(stepped) for _ in range(2)]
    request = a_request(correlation_id="mine")
    accepted = stepped.callers.accept(request)
    assert (accepted.state, accepted.is_new) == ("refused", False)
    assert accepted.result == stepped.callers.result(request.request_id)
    answer = the_result(stepped, request)["result"]
    assert (answer["status"], answer["correlation_id"], answer["retry_after_s"]) == ("refused", "mine", 5)
    (why,) = answer["degraded"]
    assert (why["where"], why["reason"]) == ("plan", "overload")
    assert "CHORALE_OUTBOX_LIMIT" in why["detail"]
    assert (len(stepped.outbox()), stepped.only_counted()) == (2, 1)
    assert (stepped.moments(), stepped.view().entries) == ({}, {})
    assert stepped.callers.accept(ended[0]).state == "ended", "an ended request is known"
    stepped.take_outbox()
    assert stepped.callers.accept(request).is_new, "there is room"


def test_refusals_under_overload_do_not_overfill_the_outbox(stepped: SteppedLedger) -> None:
    stepped.bound_outbox(2)
    stepped.overload(1_500)
    assert {stepped.callers.accept(a_request()).state for _ in range(5)} == {"refused"}
    assert (len(stepped.outbox()), stepped.only_counted()) == (2, 3)


def test_a_request_accepted_before_the_outbox_was_full_is_audited(stepped: SteppedLedger) -> None:
    stepped.bound_outbox(1)
    first, second = a_request(), a_request()
    for request in (first, second):
        assert stepped.callers.accept(request).is_new
    for request in (first, second):
        stepped.ledger.finish(request.request_id, by="fusion", body=BODY, is_complete=True)
    assert len(stepped.outbox()) == 2
    assert stepped.only_counted() == 0


@pytest.mark.parametrize("limit", [0, None])
def test_an_outbox_far_below_its_limit_keeps_all_candidates(
    stepped: SteppedLedger, limit: int | None
) -> None:
    if limit is not None:
        stepped.bound_outbox(limit)
    for _ in range(3):
        end(stepped)
    assert all(one["bm25"] == json.loads(FOUND.to_wire()) for one in branch_results(stepped))
