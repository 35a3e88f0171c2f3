"""Mutants of what a request goes through around the ledger."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "without a fusion worker the sweeper answers",
        "tasks/sweeping/sweeper.py",
        '    "end": Sweeper._end,',
        '    "end": Sweeper._pushed,',
        "tests/integration/tasks/test_something_is_missing.py::test_without_a_fusion_worker_the_sweeper_answers",
    ),
    Mutant(
        "a degraded answer is never kept",
        "tasks/request/ending.py",
        '        if fields["questions"][index]["status"] == Status.COMPLETE',
        "",
        "tests/integration/tasks/test_asked_before.py::test_a_degraded_answer_is_never_kept",
    ),
    Mutant(
        "an answer is not kept where a branch saw another generation",
        "tasks/request/ending.py",
        "    if plan.generation is None or len(generations) > 1:",
        "    if plan.generation is None:",
        "tests/integration/tasks/test_asked_before.py::test_an_answer_is_not_kept_where_a_branch_searched_another_generation",
    ),
    Mutant(
        "an answer is not kept where the generation rose",
        "tasks/request/ending.py",
        "        if values and resources.generation(plan.namespace) == plan.generation:",
        "        if values:",
        "tests/integration/tasks/test_asked_before.py::test_an_answer_is_not_kept_where_the_generation_rose_before_the_end",
    ),
    Mutant(
        "a branch that was cancelled says so",
        "tasks/request/ending.py",
        "    if entry.decided_by is not None:",
        "    if False:",
        "tests/integration/tasks/test_policies.py::test_the_failure_of_a_required_branch_ends_the_request_and_cancels_the_rest",
    ),
    Mutant(
        "the second attempt says that it is the second",
        "tasks/request/search.py",
        "    envelope = replace(envelope, attempt=attempt)",
        "",
        "tests/integration/tasks/test_policies.py::test_a_hedged_branch_is_answered_by_its_second_attempt",
    ),
    Mutant(
        "what the planner marks is what decides",
        "tasks/request/planning.py",
        '                is_decisive=request.on_missing == "fail"',
        "                is_decisive=False",
        "tests/integration/tasks/test_policies.py::test_the_failure_of_a_required_branch_ends_the_request_and_cancels_the_rest",
    ),
    Mutant(
        "the plan is sent again",
        "ledger/scripts/sweep.lua",
        "        act(sent <= 2 and 'retrieve' or 'plan', id)",
        "",
        "tests/faults/test_killed_processes.py::test_a_killed_planner_costs_nothing_once_there_is_another",
    ),
    Mutant(
        "an unopened part is sent again",
        "ledger/scripts/sweep.lua",
        "                  act('part', id, b)",
        "",
        "tests/faults/test_killed_processes.py::test_a_part_whose_worker_was_killed_with_it_unopened_is_done_by_the_next",
    ),
    Mutant(
        "another fusion follows",
        "ledger/scripts/sweep.lua",
        "      elseif e.fusion_reserve and fuse_sent < 3 and now + e.fusion_reserve <= end_at then",
        "      elseif false then",
        "tests/faults/test_killed_processes.py::test_a_fusion_killed_with_the_request_in_its_hands_is_followed_by_another",
    ),
    Mutant(
        "the sweeper sends the callback",
        "ledger/scripts/sweep.lua",
        "      if tonumber(e.left) <= 0 or now >= tonumber(e.join_at) then",
        "      if now >= tonumber(e.join_at) then",
        "tests/faults/test_killed_in_a_plain_chord.py::test_a_callback_whose_sender_was_killed_after_the_last_report_is_sent_by_the_sweeper",
    ),
    Mutant(
        "another sweeper takes over",
        "ledger/scripts/sweep.lua",
        "redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[3])",
        "redis.call('SET', KEYS[2], ARGV[1])",
        "tests/faults/test_sweepers_and_drainers.py::test_a_request_whose_sweeper_is_gone_with_its_message_in_hand_is_sent_by_another",
    ),
    Mutant(
        "a begun part is named timeout",
        "ledger/scripts/start.lua",
        "redis.call('HSETNX', KEYS[1], 'started:' .. b, now)",
        "",
        "tests/faults/test_killed_processes.py::test_a_killed_branch_worker_costs_only_what_it_had_not_reported",
    ),
    Mutant(
        "the outbox forgets what is written",
        "audit/drainer.py",
        "            self._write(batch)",
        "            self._redis.xdel(OUTBOX, *batch), self._write(batch)",
        "tests/faults/test_sweepers_and_drainers.py::test_what_a_killed_drainer_had_in_hand_is_audited_once_by_the_next",
    ),
)
