"""Promises about jobs that applications submit, and about who is told of their end."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Promise

_CLIENT = "tests/integration/jobs/test_client.py"
_ON_END = "tests/integration/jobs/test_on_end.py"
_COMMANDS = "client/chorale_client/job_commands.py"

PROMISES = (
    Mutant(
        "Each line of a submission comes once, although sweepers and Redis die meanwhile",
        _COMMANDS,
        "                self._push(list(self._open.values()))",
        "                pass",
        f"{_CLIENT}::test_commands_that_a_dead_sweeper_has_taken_are_sent_again",
        "tests/faults/test_jobs_through_the_client.py::"
        "test_every_line_comes_once_and_every_result_goes_once_although_sweepers_and_redis_die",
    ),
    Mutant(
        "A job begins after its last line has been stored",
        _COMMANDS,
        "        while self._open:",
        "        while False:",
        f"{_CLIENT}::test_commands_that_a_dead_sweeper_has_taken_are_sent_again",
    ),
    Mutant(
        "A command about a job may be done twice",
        "tasks/jobs/commands.py",
        "            if job.state in (State.VALIDATING, State.CANCELLING) or job.segments != segments:",
        "            if job:",
        f"{_CLIENT}::test_every_command_may_be_done_twice",
    ),
    Mutant(
        "A wrong line refuses the whole job, and is named by its number",
        "client/chorale_client/lines_read.py",
        "        if self.refuses and self.wrong:",
        "        if False:",
        f"{_CLIENT}::test_wrong_lines_refuse_the_job_and_are_named_by_their_numbers",
    ),
    Mutant(
        "The lines of a job do not fill Redis",
        _COMMANDS,
        "            self._wait_for_room(len(command), room_until_s)",
        "            pass",
        f"{_CLIENT}::test_lines_do_not_fill_redis",
    ),
    Mutant(
        "The receiver that a job names is told of the job's end at least once",
        "tasks/jobs/on_end.py",
        "    if not 200 <= status < 300:",
        "    if status < 200:",
        f"{_ON_END}::test_a_receiver_that_fails_is_told_again_with_growing_pauses",
        "tests/faults/test_jobs_through_the_client.py::"
        "test_the_end_is_told_although_the_sweeper_that_tried_has_died",
    ),
    Mutant(
        "A webhook that is slow keeps no other from being told",
        "tasks/jobs/on_end.py",
        "        limit.start()",
        "        pass",
        f"{_ON_END}::test_a_receiver_that_is_away_or_slow_holds_nobody_up",
    ),
    Mutant(
        "An end that was told does not hide the end of a retry",
        "jobs/segment_work.py",
        "        this_end = and_(jobs.c.job_id == job_id, jobs.c.ended_at_ms == ended_at_ms)",
        "        this_end = jobs.c.job_id == job_id",
        "tests/integration/jobs/test_store.py::"
        "test_jobs_are_listed_newest_first_and_active_ones_oldest_first",
    ),
    Mutant(
        "A job tells only queues and webhooks that the installation allows",
        "tasks/jobs/commands.py",
        "        check_on_end(about.on_end, self._settings)",
        "        pass",
        f"{_CLIENT}::test_a_job_that_cannot_be_done_is_refused_with_the_reason",
    ),
    Promise(
        "A webhook's signature is verified by the libraries of Standard Webhooks",
        f"{_ON_END}::test_the_signature_is_that_of_standard_webhooks",
    ),
)
