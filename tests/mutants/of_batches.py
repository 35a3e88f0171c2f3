"""Promises about messages that a worker takes together."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Promise

_TESTS = "tests/faults/test_batches.py"
_TOGETHER = "tests/integration/tasks/test_searched_together.py"

PROMISES = (
    Mutant(
        "A part that raises fails alone; the others of its batch are searched again, one by one",
        "tasks/request/search.py",
        '            log.warning("searched one by one", branch=whole.branch.name, error=str(error)[:200])\n'
        "            return [answer_together(resources, [part], begun_s)[0] for part in parts]",
        '            log.warning("searched one by one", branch=whole.branch.name, error=str(error)[:200])',
        f"{_TOGETHER}::test_a_part_that_raises_fails_alone",
    ),
    Mutant(
        "A part with little time left does not wait for the others of its batch",
        "tasks/request/search_together.py",
        "    if branch.is_costly or part.left_s < HURRIED_S or not merges(resources, kind, branch.name):",
        "    if branch.is_costly or not merges(resources, kind, branch.name):",
        f"{_TOGETHER}::test_a_part_with_little_time_left_is_searched_first_and_alone",
    ),
    Mutant(
        "Parts with different filters, exclusions, depths or namespaces are searched apart",
        "tasks/request/search_together.py",
        "        request.exclude_ids,",
        "",
        f"{_TOGETHER}::test_parts_that_differ_are_searched_apart",
    ),
    Mutant(
        "A question has the same ranking alone and beside any others",
        "tasks/request/search_together.py",
        "        envelopes |= zip(places, answer_together(resources, parts, begun_s), strict=True)",
        "        envelopes |= zip(places[::-1], answer_together(resources, parts, begun_s), strict=True)",
        f"{_TOGETHER}::test_a_question_has_the_same_ranking_alone_and_in_any_company",
    ),
    Mutant(
        "A part that was sent again runs alone, so that a question that kills its worker costs no other request its branch",
        "ledger/scripts/take.lua",
        "  return is_read and is_resent == 1",
        "  return false",
        "tests/integration/ledger/test_forged_entries.py::TestBatches::test_a_part_that_was_sent_again_is_taken_alone",
        shown_by=f"{_TESTS}::test_a_part_that_kills_its_worker_costs_no_other_part",
    ),
    Mutant(
        "A part that a worker started before it was killed is sent to another worker",
        "ledger/scripts/plan.lua",
        "  if tonumber(lease_ms) > 0 then put('lease:' .. branch, lease_ms) end",
        "",
        f"{_TESTS}::test_a_replica_killed_within_a_batch_costs_no_request_its_branch",
    ),
    Mutant(
        "A worker that is stopped within a batch puts its messages back",
        "tasks/celery_surface/message_intake.py",
        "            self.redis.rpush(queue, dumps(payload))",
        "            pass",
        f"{_TESTS}::test_a_worker_that_is_stopped_within_a_batch_puts_its_messages_back",
    ),
    Mutant(
        "A part that was revoked is cancelled, and the others of its batch are answered",
        "tasks/celery_surface/message_intake.py",
        '            and not (headers.get("eta") or headers.get("expires") or headers["id"] in state.revoked)',
        '            and not (headers.get("eta") or headers.get("expires"))',
        f"{_TESTS}::test_a_revoked_part_is_cancelled_and_the_others_are_answered",
    ),
    Mutant(
        "Celery's signals tell of each message of a batch",
        "tasks/celery_surface/message_intake.py",
        '                signals.task_postrun.send(sender=one.task, **told, retval=None, state="SUCCESS")',
        "                pass",
        f"{_TESTS}::test_celery_s_signals_tell_of_each_message",
    ),
    Promise(
        "No request loses a branch that another replica can serve when replicas are killed",
        f"{_TESTS}::test_of_two_thousand_requests_none_loses_its_branch_to_killed_replicas",
    ),
    Mutant(
        "What a worker finds between two slices of a costly part and cannot answer there stays in its queue",
        "tasks/celery_surface/message_intake.py",
        "                self.redis.lpush(queue, dumps(payload))",
        "                pass",
        "tests/unit/tasks/test_served_in_between.py::test_parts_of_others_are_answered_and_everything_else_goes_to_the_end_of_its_queue",
    ),
    Promise(
        "Without a bulk worker others are served between the slices of a costly request",
        "tests/integration/tasks/test_costly_requests.py::test_without_a_bulk_worker_others_are_served_between_the_slices_of_a_costly_request",
    ),
)
