"""Mutants of shutdowns, wire versions and backups."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "what a stopping worker does not finish is done by the next one",
        "config/celery.py",
        '        "task_acks_late": True,',
        '        "task_acks_late": acknowledged,',
        "tests/faults/test_deploys.py::test_what_a_stopping_worker_does_not_finish_is_done_by_the_next_one",
    ),
    Mutant(
        "documents of a worker told to quit are indexed by the next one",
        "tasks/celery_surface/stopping.py",
        "    raise WorkerTerminate(0)",
        "    raise NotImplementedError",
        "tests/faults/test_deploys.py::test_documents_whose_worker_was_told_to_quit_are_indexed_by_the_next_one",
    ),
    Mutant(
        "a request of the next wire version is served",
        "client/chorale_client/reading.py",
        "        if version != NEXT_VERSION:",
        "        if True:",
        "tests/wire/test_stored_messages.py::test_a_stored_call_for_an_accepted_request_is_served",
    ),
    Mutant(
        "what no version knows is answered",
        "tasks/request/retrieve.py",
        "                _answer_unread(resources, given, own_id, error)",
        "                pass",
        "tests/wire/test_stored_messages.py::test_what_no_version_knows_is_answered_with_that_and_ends_no_worker",
    ),
    Mutant(
        "tables of a newer version are left as they are",
        "models/schema.py",
        "        if found is not None and found not in known:",
        "        if False:",
        "tests/integration/search/several_stores/test_documents_schema.py::TestDocumentsSchema::test_a_newer_schema_is_refused_with_what_to_do",
    ),
    Mutant(
        "no answer cached before a restore counts after it",
        "search/embedded/snapshot.py",
        "                writing.exec_driver_sql(_BEYOND, (name, generation + 1))",
        "                pass",
        "tests/integration/cli/commands/test_backup.py::test_no_answer_that_was_cached_before_a_restore_counts_after_it",
    ),
    Mutant(
        "a backup that was changed is no backup",
        "cli/backup/folder.py",
        "if found.get(name) != digest)",
        "if name not in found)",
        "tests/integration/cli/commands/test_backup.py::test_a_backup_that_was_changed_is_no_backup",
    ),
    Mutant(
        "a newer folder is left alone",
        "config/home.py",
        "    if found > newest:",
        "    if False:",
        "tests/unit/config/test_home.py::test_a_newer_folder_is_refused_and_left_as_it_is",
    ),
)
