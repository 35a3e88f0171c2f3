"""Promises about `on_missing`, `cancel` and `hedge`."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PROMISES = (
    Mutant(
        "With `on_missing: fail`, a request stops waiting as soon as a required branch has failed",
        "ledger/scripts/report.lua",
        "if status == 'failed' and e[8] then",
        "if false then",
        "tests/integration/ledger/test_scripts.py::TestDeciding::test_the_failure_of_a_decisive_branch_pushes_the_callback_at_once",
    ),
    Mutant(
        "The plan says which branches end the request when they fail",
        "tasks/request/planning.py",
        '        is_decisive=request.on_missing == "fail"',
        "        is_decisive=False",
        "tests/integration/tasks/test_policies.py::test_the_failure_of_a_required_branch_ends_the_request_and_cancels_the_rest",
    ),
    Mutant(
        "After a required branch has failed under `on_missing: fail`, no further part begins or counts",
        "ledger/scripts/start.lua",
        "if e[1] ~= 'planned' or not e[2] or (e[4] and e[4] ~= 'failed') or e[8] then return false end",
        "if e[1] ~= 'planned' or not e[2] or (e[4] and e[4] ~= 'failed') then return false end",
        "tests/integration/ledger/test_scripts.py::TestDeciding::test_the_ledger_waits_for_no_branch_after_a_decisive_failure",
    ),
    Mutant(
        "A branch that is cancelled because a required one failed is named as `cancelled`",
        "tasks/request/ending.py",
        "    if entry.decided_by is not None:",
        "    if False:",
        "tests/integration/tasks/test_policies.py::test_the_failure_of_a_required_branch_ends_the_request_and_cancels_the_rest",
    ),
    Mutant(
        "After a request was cancelled, none of its parts begins, counts or ends it again",
        "client/chorale_client/scripts/cancel.lua",
        "local result, entry = end_request(ARGV[1], 'client', tail, now)",
        "local result, entry = 'x', as_table(redis.call('HGETALL', KEYS[1]))",
        "tests/integration/ledger/test_scripts.py::TestCancelling::test_no_worker_or_sweeper_continues_a_cancelled_request",
    ),
    Mutant(
        "Followers of a cancelled request are planned anew, however late it is",
        "ledger/scripts/release.lua",
        "  if flight == ARGV[1] and (ARGV[3] == '1' or f[3] - now < REPLAN_SHARE * (f[3] - f[2])) then",
        "  if ARGV[3] == '1' or f[3] - now < REPLAN_SHARE * (f[3] - f[2]) then",
        "tests/integration/ledger/test_scripts.py::TestCancelling::test_followers_of_a_cancelled_leader_are_planned_anew_even_late",
    ),
    Mutant(
        "No request follows a leader that ends later",
        "ledger/scripts/plan.lua",
        "    if leads_until and reserve and l[1] == flight and leads_until - reserve <= end_at then",
        "    if leads_until and reserve and l[1] == flight and leads_until <= deadline then",
        "tests/integration/ledger/test_scripts.py::TestFollowing::test_a_leader_is_followed_only_if_its_end_is_not_later",
    ),
    Mutant(
        "A hedged branch is sent once more, and only once",
        "ledger/scripts/sweep.lua",
        "          redis.call('HSET', key, 'hedged:' .. b, now)",
        "",
        "tests/integration/ledger/test_scripts.py::TestHedging::test_a_part_without_an_answer_is_hedged_once",
    ),
    Mutant(
        "While two attempts are out, a failure counts only when both have failed",
        "ledger/scripts/report.lua",
        "if status == 'failed' and e[6] then",
        "if false then",
        "tests/integration/ledger/test_scripts.py::TestHedging::test_a_failure_counts_only_when_the_other_attempt_failed_too",
    ),
    Mutant(
        "One attempt that fails twice is one failure",
        "ledger/scripts/report.lua",
        "  if e[7] == attempt then return 'duplicate' end",
        "",
        "tests/integration/ledger/test_scripts.py::TestHedging::test_a_failure_counts_only_when_the_other_attempt_failed_too",
    ),
    Mutant(
        "A failure that waits for the other attempt is named if that attempt never reports",
        "ledger/scripts/report.lua",
        "    redis.call('HSET', KEYS[1], 'failed:' .. b, attempt, 'envelope:' .. b, envelope, 'mac:' .. b, mac)",
        "    redis.call('HSET', KEYS[1], 'failed:' .. b, attempt)",
        "tests/integration/ledger/test_scripts.py::TestHedging::test_a_failure_is_named_if_the_other_attempt_never_reports",
    ),
    Mutant(
        "A hedged branch can be answered by its second attempt",
        "tasks/request/batch.py",
        '    attempts = (given.get("attempt", 1) for given, _ in todo)',
        "    attempts = (1 for _ in todo)",
        "tests/integration/tasks/test_policies.py::test_a_hedged_branch_is_answered_by_its_second_attempt",
    ),
    Mutant(
        "A part that hangs is sent to another worker after its branch's own 95th percentile",
        "tasks/request/hedging.py",
        "        after_ms = min(known_ms or half_ms, half_ms) if hedge else None",
        "        after_ms = half_ms if hedge else None",
        "tests/integration/tasks/test_admission.py::test_a_hedged_part_that_hangs_is_searched_by_another_worker_and_the_answer_is_complete",
    ),
)
