"""Promises about what callers and other programs send."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Promise

PROMISES = (
    Promise(
        "No question, however hostile, ends a worker or reaches another namespace",
        "tests/integration/tasks/test_hostile_questions.py::test_every_hostile_question_is_answered_from_its_own_namespace",
    ),
    Mutant(
        "A message that nobody can read is dropped, and costs no other message and no worker",
        "tasks/celery_surface/consuming.py",
        "        except (ValueError, RecursionError) as error:",
        "        except ZeroDivisionError as error:",
        "tests/faults/test_bad_messages.py::test_a_message_that_nobody_can_read_costs_nothing_else",
    ),
    Mutant(
        "A wrong request that is sent by task name ends at once with the reason",
        "tasks/request/retrieve.py",
        "            _answer_unread(resources, given, own_id, error)",
        "            pass",
        "tests/faults/test_bad_input.py::test_a_wrong_request_sent_by_task_name_ends_at_once_with_the_reason",
    ),
    Mutant(
        "The client refuses a wrong request and sends nothing",
        "client/chorale_client/filters.py",
        "        if is_deeper(condition, MAX_FILTER_DEPTH):",
        "        if False:",
        "tests/faults/test_bad_input.py::test_the_client_refuses_a_wrong_option_and_sends_nothing",
    ),
    Mutant(
        "No answer exceeds the size limit, and a shortened answer says that it was cut",
        "fusion/bounded.py",
        "    if size <= limit_bytes:",
        "    if True:",
        "tests/unit/fusion/test_bounded.py::test_an_answer_over_the_limit_loses_its_texts_and_says_so",
    ),
)
