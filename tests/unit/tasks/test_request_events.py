"""The events that show requests in Flower."""

from __future__ import annotations

from ast import literal_eval
from typing import Any

import pytest
from pydantic_core import to_json

from records.audit.outbox import Ended
from tasks.celery_internals.event_sender import Event
from tasks.sweeping.request_events import RequestEvents, events_of_ended, events_of_running

ACCEPTED_MS = 1_795_402_084_000
BRANCH_RESULT = {"status": "ok", "ms": 12.5, "attempt": 1, "rankings": [{"hits": [["d", "d#0", 0.5]] * 3}]}


def ended(status: str = "complete", **changes: Any) -> Ended:
    answer = {
        "status": status,
        "questions": [{"hits": [{}, {}]}],
        "stages": [{"stage": "search.bm25", "ms": 12.5, "start_ms": 4}],
        "degraded": [],
        **changes.pop("answer", {}),
    }
    plan = {"searched": [0], "branches": [{"name": "bm25", "kind": "bm25"}]}
    request = {"namespace": "docs", "timeout_s": 2.0, "questions": [{"text": "Who pays?"}]}
    fields = {"plan": plan, "branch_results": {"bm25": BRANCH_RESULT}, **changes}
    return Ended("r", ACCEPTED_MS, ACCEPTED_MS + 40, "fusion", request, answer=answer, **fields)


def events(one: Ended, *, with_texts: bool = False) -> list[Event]:
    return list(events_of_ended(one, with_texts=with_texts))


@pytest.mark.parametrize(
    ("status", "event"),
    [
        ("complete", "task-succeeded"),
        ("skipped", "task-succeeded"),
        ("degraded", "task-degraded"),
        ("failed", "task-failed"),
        ("cancelled", "task-revoked"),
        ("refused", "task-rejected"),
    ],
)
def test_every_status_has_its_event(status: str, event: str) -> None:
    assert events(ended(status))[0][0] == event


def test_a_branch_has_its_own_times_and_hits() -> None:
    (_, request), (kind, branch) = events(ended())
    assert (request["received"], request["runtime"]) == (ACCEPTED_MS / 1000, pytest.approx(0.04))
    assert (kind, branch["uuid"], branch["parent_id"]) == ("task-succeeded", "r:bm25", "r")
    assert branch["started"] == pytest.approx(ACCEPTED_MS / 1000 + 0.004)
    assert branch["runtime"] == 0.0125
    assert literal_eval(branch["result"]) == {"status": "ok", "hits": 3}
    # A hedge, and a branch result without its candidates.
    brief = {"status": "ok", "rankings": [], "left_out": True, "attempt": 2}
    second = events(ended(branch_results={"bm25": brief}))[1][1]
    assert second["uuid"] == "r:bm25"
    assert literal_eval(second["result"]) == {"status": "ok", "hits": 0, "attempt": 2}


def test_a_branch_is_received_and_answered_by_its_worker() -> None:
    _, *branch = events(ended(branch_results={"bm25": {**BRANCH_RESULT, "worker": "bm25@host"}}))
    assert [(kind, fields["worker"]) for kind, fields in branch] == [
        ("task-received", "bm25@host"),
        ("task-succeeded", "bm25@host"),
    ]
    # With a time Flower would count it as prefetched for ever.
    assert branch[0][1]["received"] is None


ENTRY = {
    "state": "planned",
    "accepted_at": str(ACCEPTED_MS),
    "request": '{"namespace": "docs", "questions": [{"text": "Who pays?"}]}',
    "plan": '{"branches": [{"name": "bm25", "kind": "bm25"}, {"name": "hyde", "kind": "hyde"}, '
    '{"name": "vector", "kind": "vector"}]}',
    "join_at": "9",
    "status:bm25": "ok",
    "result:bm25": to_json({**BRANCH_RESULT, "worker": "bm25@host"}).decode(),
    "started:bm25": str(ACCEPTED_MS + 3),
    "started:hyde": str(ACCEPTED_MS + 5),
}
TASK_IDS = {"bm25": "r:bm25", "hyde": "r:hyde", "vector": "r:vector"}


def running(entry: dict[str, str], *, before: dict[str, str] | None = None) -> list[Event]:
    return list(events_of_running("r", entry, before=before, with_texts=False))


def kinds(events: list[Event], task_id: str) -> list[str]:
    return [kind for kind, fields in events if fields["uuid"] == task_id]


def test_a_running_request_shows_how_far_its_branches_are() -> None:
    sent = running(ENTRY)
    (received, _), (started, progress), *children = sent
    assert (received, started) == ("task-received", "task-started")
    assert literal_eval(progress["result"]) == {
        "status": "running",
        "namespace": "docs",
        "branches": {"bm25": "ok", "hyde": "started", "vector": "not_started"},
    }
    assert {one["parent_id"] for _, one in children} == {"r"}
    assert {branch: kinds(sent, task_id) for branch, task_id in TASK_IDS.items()} == {
        "bm25": ["task-sent", "task-started", "task-received", "task-succeeded"],
        "hyde": ["task-sent", "task-started"],
        "vector": ["task-sent"],
    }
    assert children[1][1]["timestamp"] == ACCEPTED_MS / 1000 + 0.003
    # The end of a branch is the same as at the end of its request.
    _, *final = events(
        ended(branch_results={"bm25": {**BRANCH_RESULT, "worker": "bm25@host"}}, answer={"stages": []})
    )
    for (_, now), (_, later) in zip(children[2:4], final, strict=True):
        assert (now["worker"], now.get("result")) == (later["worker"], later.get("result"))


def test_an_answer_that_replaces_a_failure_is_sent_while_the_request_runs() -> None:
    before = {name: value for name, value in ENTRY.items() if not name.startswith("result:")}
    sent = running(ENTRY, before={**before, "status:bm25": "failed"})
    assert kinds(sent, "r:bm25") == ["task-received", "task-succeeded"]


def test_a_request_without_a_plan_is_received_and_starts_when_it_has_one() -> None:
    unplanned = {name: ENTRY[name] for name in ("accepted_at", "request")} | {"state": "accepted"}
    ((kind, fields),) = running(unplanned)
    assert kind == "task-received"
    assert literal_eval(fields["result"]) == {"status": "accepted", "namespace": "docs"}
    planned = {name: value for name, value in ENTRY.items() if not name.endswith((":bm25", ":hyde"))}
    sent = running(planned, before={"state": "accepted"})
    assert [kind for kind, _ in sent] == ["task-started", *["task-sent"] * 3]


def test_the_text_of_a_question_is_in_the_events_only_if_it_is_wanted() -> None:
    assert "pays" not in str(events(ended()))
    assert literal_eval(events(ended(), with_texts=True)[0][1]["kwargs"])["questions"] == ["Who pays?"]


def test_a_branch_that_left_no_branch_result_has_failed_for_the_reason_in_the_answer() -> None:
    degraded = [{"where": "search.bm25", "reason": "timeout", "detail": "“Who pays?” took long"}]
    (_, request), (kind, branch) = events(ended("failed", branch_results={}, answer={"degraded": degraded}))
    assert request["exception"] == "search.bm25 timeout"
    assert (kind, branch["exception"]) == ("task-failed", "timeout")
    assert literal_eval(request["result"])["branches"] == {"bm25": "timeout"}


def test_a_branch_that_nobody_took_has_not_started() -> None:
    (_, request), (kind, branch) = events(ended("cancelled", branch_results={}, answer={"stages": []}))
    assert literal_eval(request["result"])["branches"] == {"bm25": "not_started"}
    assert (kind, branch["exception"]) == ("task-failed", "not_started")


def test_a_request_that_was_answered_without_its_branches_has_no_children() -> None:
    cached = ended(plan={"searched": [], "branches": [{"name": "bm25", "kind": "bm25"}]})
    ((_, request),) = events(cached)
    assert literal_eval(request["result"]) == {
        "status": "complete",
        "namespace": "docs",
        "hits": 2,
        "ms": 40,
        "by": "fusion",
    }
    assert len(events(ended(plan=None, branch_results={}))) == 1


def test_a_request_that_cannot_be_shown_does_not_stop_the_audit() -> None:
    odd = ended(answer={"questions": "none", "degraded": 3})
    # Nothing is sent here: `run` does that.
    RequestEvents(None, None, branches=[], with_texts=False).ended([odd])  # type: ignore[arg-type]
