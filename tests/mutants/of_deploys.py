"""Promises about stopping, updating and backing up."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Promise

PROMISES = (
    Mutant(
        "A worker that is told to stop finishes the part that it runs",
        "tasks/celery_surface/stopping.py",
        "            signal.signal(number, finish)",
        "            signal.signal(number, _interrupt)",
        "tests/faults/test_deploys.py::test_a_worker_told_to_stop_finishes_the_part_that_runs",
    ),
    # No single line breaks it: a message that is not put back is sent again when the lease of its part is over.
    Promise(
        "The next worker does the task that a stopping worker may not finish, and the request is complete",
        "tests/faults/test_deploys.py::test_the_next_worker_does_the_task_that_a_stopping_worker_does_not_finish",
    ),
    Mutant(
        "When a worker is told to quit, the next one indexes its documents at once",
        "tasks/celery_surface/stopping.py",
        "    raise WorkerTerminate(0)",
        "    raise NotImplementedError",
        "tests/faults/test_deploys.py::test_the_next_worker_indexes_the_documents_of_a_worker_that_was_told_to_quit",
    ),
    Promise(
        "Every worker can be replaced while requests run, and each request is complete",
        "tests/faults/test_deploys.py::test_every_worker_is_replaced_while_requests_run_and_each_request_is_complete",
    ),
    Promise(
        "The first request after `ready` is complete",
        "tests/faults/test_deploys.py::test_the_first_request_after_ready_is_complete",
    ),
    Mutant(
        "A request of the next wire version is served, and the answer names what was ignored",
        "client/chorale_client/reading.py",
        "        if version != NEXT_VERSION:",
        "        if True:",
        "tests/wire/test_stored_messages.py::test_a_stored_call_for_an_accepted_request_is_served",
    ),
    Mutant(
        "A message of an unknown wire version is answered with that reason, and ends no worker",
        "tasks/request/retrieve.py",
        "            _answer_unread(resources, given, own_id, error)",
        "            pass",
        "tests/wire/test_stored_messages.py::test_a_message_of_an_unknown_version_is_refused_and_ends_no_worker",
    ),
    Promise(
        "If a schema change is killed, the next start completes it, on SQLite and PostgreSQL",
        "tests/contracts/schema.py::SchemaContract::test_a_killed_upgrade_leaves_the_old_schema_and_the_next_one_completes_it",
    ),
    Mutant(
        "A program refuses tables of a newer version and leaves them as they are",
        "models/schema.py",
        "        if found is not None and found not in known:",
        "        if False:",
        "tests/integration/search/several_stores/test_documents_schema.py::TestDocumentsSchema::test_a_newer_schema_is_refused_and_the_message_says_what_to_do",
    ),
    Promise(
        "A backup that is taken while documents are indexed gives the same answers elsewhere",
        "tests/integration/cli/commands/test_backup.py::test_a_backup_taken_while_documents_are_indexed_answers_the_same_elsewhere",
    ),
    Mutant(
        "A backup that was changed is not restored",
        "cli/backup/folder.py",
        "if found.get(name) != digest)",
        "if name not in found)",
        "tests/integration/cli/commands/test_backup.py::test_a_backup_that_was_changed_is_no_backup",
    ),
    Mutant(
        "A program refuses the home folder of a newer program and leaves it as it is",
        "config/home_format.py",
        "    if found > HOME_FORMAT:",
        "    if False:",
        "tests/unit/config/test_home_format.py::test_a_newer_folder_is_refused_and_left_as_it_is",
    ),
    Mutant(
        "A call that waits over HTTP is answered when its process stops, and another process has the search",
        "api/serving.py",
        "        self._closing.begin()",
        "        pass",
        "tests/integration/api/test_serving.py::test_calls_that_wait_are_answered_when_the_process_stops",
    ),
    Mutant(
        "The installed command finds its own modules before those of an application",
        "cli/installed.py",
        "    sys.path.insert(0, folder)",
        "    sys.path.append(folder)",
        "tests/acceptance/test_service_wheel.py::test_the_help_comes_from_the_wheel",
    ),
)
