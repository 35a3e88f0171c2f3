"""Promises to applications that ask by task name, and about tasks that come after a request."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Promise

_ENDS = "tests/integration/tasks/test_request_ends.py"
_PLAIN = "tests/acceptance/test_plain_celery.py"
_LINKED = "tests/unit/tasks/test_linked_tasks.py"

PROMISES = (
    Mutant(
        "A bare `send_task` has its answer under its own id, with Redis and with RabbitMQ",
        "tasks/celery_surface/result_backend.py",
        "        return check_identifier(text)",
        '        return check_identifier(f"{task_id}.")',
        f"{_PLAIN}::test_a_bare_call_returns_the_answer_under_the_task_s_own_id",
    ),
    Promise(
        "A call that is delivered twice is one request",
        f"{_PLAIN}::test_a_call_that_is_delivered_twice_is_one_request",
    ),
    Mutant(
        "A linked task runs after the end of the request, and gets its answer",
        "tasks/request/retrieve.py",
        '            given["linked"] = linked',
        "            pass",
        f"{_PLAIN}::test_a_linked_task_gets_the_answer_of_the_ended_request",
    ),
    Mutant(
        "A drainer that dies loses no end that has to be told",
        "audit/drainer.py",
        '            self._scripts.run("pass_on", [OUTBOX, TO_TELL], [TOLD_KEPT, *told])',
        '            self._redis.xdel(OUTBOX, *told), self._scripts.run("pass_on", [OUTBOX, TO_TELL], [TOLD_KEPT, *told])',
        f"{_ENDS}::test_a_drainer_that_dies_before_it_passes_the_end_on_does_so_at_its_next_start",
    ),
    Mutant(
        "Two drainers pass an end on once",
        "audit/scripts/pass_on.lua",
        "  if found and redis.call('XDEL', KEYS[1], ARGV[place]) == 1 then",
        "  if found then",
        f"{_ENDS}::test_two_drainers_pass_an_end_on_once",
    ),
    Mutant(
        "While the broker is away ends wait, and are told later",
        "tasks/telling/ends.py",
        "                self._later[entry] = _Later(time.monotonic() + again_in_s, failures + 1)",
        "                pass",
        f"{_ENDS}::test_while_the_broker_is_away_ends_wait_and_are_told_later",
    ),
    Promise(
        "Every end is told with one task id, although the processes that tell are killed",
        "tests/faults/test_ends_are_told.py::"
        "test_every_end_is_told_with_one_task_id_although_the_sweepers_are_killed",
    ),
    Mutant(
        "A queue that RabbitMQ does not have keeps no other task waiting",
        "tasks/telling/ends.py",
        "            if entry not in self._later:",
        "            if not self._later:",
        f"{_ENDS}::test_a_queue_that_is_not_there_yet_keeps_no_other_task_waiting",
    ),
    Mutant(
        "Tasks are sent only to queues that the installation allows",
        "tasks/telling/ends.py",
        "    check_told(request, settings)",
        "    pass",
        f"{_ENDS}::test_a_queue_that_the_installation_does_not_allow_gets_nothing",
    ),
    Mutant(
        "The arguments of linked tasks are not in the audit",
        "audit/rows.py",
        '    left_out = ("questions", "linked", *(() if keep_texts else ("filters", "tags")))',
        '    left_out = ("questions", *(() if keep_texts else ("filters", "tags")))',
        f"{_ENDS}::test_the_arguments_of_linked_tasks_are_not_in_the_audit",
    ),
    Mutant(
        "What cannot follow a request is refused by name",
        "tasks/telling/linked_tasks.py",
        '        elif kind == "group" and not rest:',
        "        elif kind and not rest:",
        f"{_LINKED}::test_a_chord_neither_follows_a_request_nor_has_one",
    ),
)
