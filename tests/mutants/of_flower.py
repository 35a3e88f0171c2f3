"""Promises about what Flower shows."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TESTS = "tests/acceptance/test_flower.py"
_EVENTS = "tasks/sweeping/request_events.py"

PROMISES = (
    Mutant(
        "Flower shows a request as one task under its id, with its branches as children",
        _EVENTS,
        '            "parent_id": ended.request_id,',
        "",
        f"{_TESTS}::test_flower_shows_a_request_as_one_task_with_its_branches_as_children",
    ),
    Mutant(
        "A degraded request has a state and a metric of its own in Flower",
        _EVENTS,
        '    Status.DEGRADED: "task-degraded",',
        "",
        f"{_TESTS}::test_a_degraded_request_has_a_state_and_a_metric_of_its_own",
    ),
    Mutant(
        "A revoke in Flower cancels the request, and its callers get an answer",
        "tasks/celery_surface/result_backend.py",
        "        if PART_SEPARATOR not in task_id and CallersLedger(self.client).cancel(task_id) is None:",
        "        if PART_SEPARATOR not in task_id:",
        f"{_TESTS}::test_a_request_that_runs_is_shown_and_a_revoke_cancels_it",
    ),
    Mutant(
        "Flower shows no text of a question unless CHORALE_LOG_TEXTS is set",
        _EVENTS,
        '        "questions": [one.get("text") for one in questions] if with_texts else len(questions),',
        '        "questions": [one.get("text") for one in questions],',
        f"{_TESTS}::test_flower_shows_no_text_of_a_question",
    ),
    Mutant(
        "A busy worker goes on with the heartbeats that Flower expects",
        "tasks/worker/heartbeat.py",
        "            self.while_busy()",
        "            pass",
        "tests/faults/test_batches.py::test_a_busy_worker_sends_the_heartbeats_that_flower_expects",
    ),
)
