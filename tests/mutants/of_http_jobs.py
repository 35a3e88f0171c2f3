"""Promises to callers of jobs, documents and the audit trail over HTTP."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Promise

_JOBS = "tests/integration/api/test_jobs.py"
_NAMESPACES = "tests/integration/api/test_namespaces.py"

PROMISES = (
    Mutant(
        "A key's namespaces, filter and limits bind every line of its jobs",
        "api/submissions.py",
        "defaults=defaults, applied=applied)",
        "defaults=defaults)",
        f"{_JOBS}::test_a_grant_binds_every_line",
    ),
    Promise(
        "Lines of a job are stored while its upload goes on",
        f"{_JOBS}::test_lines_are_stored_while_the_upload_goes_on",
    ),
    Mutant(
        "An upload that breaks off leaves no job that waits",
        "jobs/submitting.py",
        "            insist(lambda: store.refuse(new.job_id, reason, now_ms=now_ms()))",
        "            pass",
        f"{_JOBS}::test_an_upload_that_breaks_off_leaves_no_job_that_waits",
    ),
    Mutant(
        "One `Idempotency-Key` makes one job",
        "jobs/store.py",
        "            return bool(added.rowcount)",
        "            return True",
        f"{_JOBS}::test_the_same_idempotency_key_makes_one_job",
    ),
    Mutant(
        "Another tenant's job and an unknown one are the same 404 on every route",
        "api/jobs.py",
        "    grant.check_owned(job_id)",
        "    pass",
        f"{_JOBS}::test_another_tenants_job_and_an_unknown_one_are_the_same_404",
    ),
    Mutant(
        "Another tenant's ticket and an unknown one are the same 404",
        "api/namespaces.py",
        "    grant.check_owned(ticket)",
        "    pass",
        f"{_NAMESPACES}::test_another_tenants_ticket_and_an_unknown_one_are_the_same_404",
    ),
    Mutant(
        "A misspelt query parameter is an error",
        "api/strictness.py",
        "        if name not in known:",
        "        if False:",
        f"{_JOBS}::test_a_misspelt_parameter_and_an_unknown_method_say_what_there_is",
    ),
    Mutant(
        "An installation without a branch is ready, and `/readyz` names the branch",
        "api/health.py",
        "queue in branches and served.isdisjoint(branches)",
        "queue in branches",
        "tests/integration/api/test_health.py::test_without_a_branch_it_is_ready_and_the_queue_is_named",
    ),
    Promise(
        "The API keeps to its description in ten thousand calls of Schemathesis",
        "tests/integration/api/test_schemathesis.py::test_the_api_keeps_to_its_description_in_ten_thousand_calls",
    ),
)
