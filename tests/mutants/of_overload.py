"""Mutants of breakers, admission and hedges."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "half open, one request tries",
        "ledger/scripts/probe.lua",
        "    if b[2] and now < tonumber(b[3]) then return 0 end",
        "",
        "tests/integration/tasks/test_breaker_states.py::test_half_open_is_tried_by_exactly_one_of_many",
    ),
    Mutant(
        "a breaker opens",
        "ledger/scripts/outcomes.lua",
        "    if b[1] and b[2] == id or not b[1] and failures >= limit then",
        "    if b[1] and b[2] == id then",
        "tests/integration/tasks/test_breaker_states.py::test_failures_in_a_row_open_it_and_the_last_reason_is_kept",
    ),
    Mutant(
        "an answer closes a breaker",
        "ledger/scripts/outcomes.lua",
        "    redis.call('DEL', key)",
        "",
        "tests/integration/tasks/test_breaker_states.py::test_the_probe_s_answer_closes_it",
    ),
    Mutant(
        "only the probe opens again",
        "ledger/scripts/outcomes.lua",
        "    if b[1] and b[2] == id or not b[1] and failures >= limit then",
        "    if failures >= limit then",
        "tests/integration/tasks/test_breaker_states.py::test_the_probe_s_failure_opens_it_again_and_nobody_else_s_does",
    ),
    Mutant(
        "an open branch is not asked",
        "tasks/left_out.py",
        "        may_try = early or not any(look.now_ms < one.open_until_ms for one in open_ones)",
        "        continue",
        "tests/unit/tasks/test_left_out.py::test_an_open_branch_is_left_out_and_named_in_the_plan",
    ),
    Mutant(
        "a policy that cannot be met ends at once",
        "tasks/retrieve.py",
        "    if missing and (len(missing) == len(plan.branches) or fails_policy(request, plan, missing)):",
        "    if missing and len(missing) == len(plan.branches):",
        "tests/integration/tasks/test_breakers.py::test_what_fails_without_the_branch_ends_at_once",
    ),
    Mutant(
        "outcomes are counted by the end",
        "tasks/ending.py",
        "        turned = resources.breakers.count(request.request_id, found)",
        "        turned = resources.breakers.count(request.request_id, ())",
        "tests/integration/tasks/test_breakers.py::test_after_failures_in_a_row_the_branch_is_not_asked_and_the_answer_says_since_when",
    ),
    Mutant(
        "a store is counted too",
        "ledger/outcomes.py",
        '            store = Outcome(branch.name, "failed" if counts.store else "says_nothing", str(reason))',
        '            store = Outcome(branch.name, "says_nothing", str(reason))',
        "tests/integration/tasks/test_breakers.py::test_a_store_that_is_away_closes_the_door_for_its_other_branches_too",
    ),
    Mutant(
        "unserved is no overload",
        "tasks/admission.py",
        '        now.passed = _bound_passed(state, self._bounds) if is_served else ""',
        "        now.passed = _bound_passed(state, self._bounds)",
        "tests/unit/tasks/test_admission.py::test_a_queue_that_nobody_serves_is_no_overload",
    ),
    Mutant(
        "an overloaded branch is left out",
        "tasks/left_out.py",
        "    missing = shut | _overloaded(plan, look)",
        "    missing = shut",
        "tests/integration/tasks/test_admission.py::test_a_branch_with_too_much_before_it_is_left_out_and_comes_back",
    ),
    Mutant(
        "where nobody can plan, requests are refused",
        "tasks/admission.py",
        "        refusing = over & {QUEUE_RETRIEVE, QUEUE_FUSION}",
        "        refusing: set[str] = set()",
        "tests/integration/tasks/test_admission.py::test_where_nobody_can_plan_in_time_new_requests_are_refused_at_once",
    ),
    Mutant(
        "a refusal is taken back",
        "ledger/scripts/overload.lua",
        "redis.call('DEL', KEYS[2])",
        "",
        "tests/integration/tasks/test_queues.py::TestWatching::test_a_refusal_is_taken_back_by_the_next_look",
    ),
    Mutant(
        "a backlog of ended requests is dropped",
        "tasks/warming.py",
        "            drop_ended(resources.redis, queue)",
        "            pass",
        "tests/integration/tasks/test_admission.py::test_a_worker_that_was_away_for_an_hour_makes_no_new_request_late",
    ),
    Mutant(
        "nothing that is waited for is dropped",
        "ledger/scripts/drop.lua",
        " or redis.call('LINDEX', KEYS[1], -ARGV[3]) ~= ARGV[2]",
        "",
        "tests/integration/tasks/test_queues.py::TestBacklog::test_two_that_start_together_drop_nothing_that_is_waited_for",
    ),
    Mutant(
        "the hedge follows the branch's own p95",
        "tasks/hedging.py",
        '            update={"hedge_after_ms": min(p95_ms.get(branch.name) or branch.limit_ms, branch.limit_ms // 2)}',
        '            update={"hedge_after_ms": branch.limit_ms // 2}',
        "tests/integration/tasks/test_admission.py::test_a_part_that_hangs_is_asked_of_another_worker_and_the_answer_is_whole",
    ),
    Mutant(
        "what was let in is not refused by overload",
        "tasks/left_out.py",
        "        missing = shut",
        "        pass",
        "tests/unit/tasks/test_left_out.py::test_who_was_let_in_waits_for_what_it_would_fail_without",
    ),
    Mutant(
        "a hasty caller opens no breaker",
        "ledger/outcomes.py",
        "    return branch.limit_ms < round(timeout_ms) or timeout_ms >= SHORTEST_FAIR_MS",
        "    return True",
        "tests/integration/tasks/test_breakers.py::test_a_short_time_limit_opens_no_breaker",
    ),
)
