"""Promises about the rows of bulk jobs, and about the commands that submit, read and compare them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Promise

_STORE = "jobs/store.py"
_WORK = "jobs/segment_work.py"
_ROWS = "jobs/segment_rows.py"
_OF_STORE = "tests/integration/jobs/test_store.py"
_COMMANDS = "tests/integration/cli/commands/test_jobs.py"

PROMISES = (
    Promise(
        "The counts of a job always sum to its lines, and are those of its results when it has ended",
        f"{_OF_STORE}::test_whatever_happens_the_counts_are_those_of_the_result_lines",
    ),
    Mutant(
        "A segment that is delivered twice is written once",
        _WORK,
        "                    segments.c.open == len(segment.left),\n",
        "",
        f"{_OF_STORE}::test_the_first_of_two_deliveries_that_write_in_parts_goes_on",
    ),
    Mutant(
        "Results come in input order, up to the first line without one",
        _STORE,
        '                if row["state"] in ("waiting", "sent") and job.state != State.ENDED:',
        "                if False:",
        f"{_OF_STORE}::test_results_come_in_input_order_up_to_the_first_line_that_is_not_answered",
    ),
    Mutant(
        "A retry answers only lines with the chosen statuses",
        _ROWS,
        '        connection.execute(update(segments).where(ours, segments.c.state == "waiting").values(state=status))',
        "        pass",
        f"{_OF_STORE}::test_retry_of_failed_lines_leaves_cancelled_lines_alone",
    ),
    Mutant(
        "A line whose retry is not reached keeps its earlier result",
        "jobs/jobs_database.py",
        "    keep_earlier(connection, job_id)\n",
        "",
        f"{_OF_STORE}::test_a_line_whose_retry_is_not_reached_keeps_its_earlier_result",
    ),
    Mutant(
        "A feeder that comes late sends no lines of a job that another feeder has ended",
        _WORK,
        "            if not is_fed or found is None:",
        "            if found is None:",
        f"{_OF_STORE}::test_a_feeder_that_comes_late_sends_no_segment_of_a_job_that_may_not_run",
    ),
    Mutant(
        "A refused file leaves no line in the database",
        _STORE,
        "            connection.execute(delete(segments).where(segments.c.job_id == job_id))",
        "            pass",
        f"{_OF_STORE}::test_a_refused_file_leaves_a_failed_job_without_lines",
    ),
    Mutant(
        "A submission goes on when a database that was locked is free again",
        "jobs/submitting.py",
        "            if time.monotonic() > give_up:",
        "            if True:",
        "tests/unit/cli/test_jobs_view.py::test_a_submission_goes_on_when_the_database_is_back",
    ),
    Mutant(
        "An interrupted submission leaves no job behind that waits",
        "jobs/submitting.py",
        "            insist(lambda: store.refuse(new.job_id, reason, now_ms=now_ms()))",
        "            pass",
        f"{_COMMANDS}::test_an_interrupted_submission_leaves_no_job_behind",
    ),
    Mutant(
        "A file of results is replaced only by a whole one",
        "cli/jobs/writing.py",
        '    part = file.with_name(f"{file.name}.part")',
        "    part = file",
        f"{_COMMANDS}::test_a_file_stays_as_it_is_until_all_results_are_written",
    ),
    Mutant(
        "Comparing two jobs takes the same memory for any number of lines in the same order",
        "jobs/comparison.py",
        "waiting[1 - side].pop(answer.id, None)",
        "waiting[1 - side].get(answer.id)",
        "tests/unit/jobs/test_comparison.py::test_memory_stays_the_same_for_lines_in_the_same_order",
    ),
)
