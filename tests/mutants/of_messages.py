"""What Celery loses, what comes twice, and what nobody can read."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FAULTS = "tests/faults"

MUTANTS = (
    Mutant(
        "a message that nobody can read costs itself alone",
        "tasks/celery_surface/consuming.py",
        "        except (ValueError, RecursionError) as error:",
        "        except ZeroDivisionError as error:",
        f"{_FAULTS}/test_bad_messages.py::test_a_message_that_nobody_can_read_costs_itself_alone",
    ),
    Mutant(
        "a part that Celery calls failed is named at once",
        "tasks/celery_surface/result_backend.py",
        "            if is_part:",
        "            if False:",
        f"{_FAULTS}/test_what_celery_loses.py::test_a_part_that_celery_calls_failed_is_named_at_once",
    ),
    Mutant(
        "no task leaves a subscription behind",
        "tasks/celery_surface/result_backend.py",
        "        if PART_SEPARATOR in result.id or self.app.current_worker_task is not None:",
        "        if PART_SEPARATOR in result.id:",
        f"{_FAULTS}/test_what_celery_loses.py::test_a_part_that_celery_loses_costs_its_branch_and_no_time",
    ),
    Mutant(
        "a message that is dropped twice is sent a third time",
        "ledger/scripts/sweep.lua",
        "            if not e['status:' .. b] and not e['started:' .. b] and resent < 2 then",
        "            if not e['status:' .. b] and not e['started:' .. b] and resent < 1 then",
        f"{_FAULTS}/test_what_celery_loses.py::test_a_branch_whose_message_is_dropped_twice_is_asked_the_third_time",
    ),
    Mutant(
        "a wrong request ends at once with the reason",
        "tasks/request/retrieve.py",
        "                _answer_unread(resources, given, own_id, error)",
        "                pass",
        f"{_FAULTS}/test_bad_input.py::test_called_by_name_it_ends_at_once_with_the_reason",
    ),
    Mutant(
        "a filter is not nested without end",
        "client/chorale_client/filters.py",
        "        if is_deeper(condition, MAX_FILTER_DEPTH):",
        "        if False:",
        f"{_FAULTS}/test_bad_input.py::test_the_client_refuses_it_and_sends_nothing",
    ),
    Mutant(
        "an answer has a largest size",
        "fusion/bounded.py",
        "    if size <= limit_bytes:",
        "    if True:",
        "tests/unit/fusion/test_bounded.py::test_what_does_not_fit_goes_without_texts_and_says_so",
    ),
    Mutant(
        "nothing that is ready waits for the network",
        "tasks/celery_surface/consuming.py",
        "            ready = self.hub._pop_ready()",
        "            ready = ()",
        "tests/unit/tasks/test_consuming.py::test_what_becomes_ready_meanwhile_runs_before_the_loop_waits",
    ),
)
