"""Promises about entries that a caller's Redis login has written."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ENTRIES = "tests/integration/ledger/test_forged_entries.py"

PROMISES = (
    Mutant(
        "A malformed entry is set aside, and the sweeper goes on with the other requests",
        "ledger/scripts/sound_entry.lua",
        "if not why then return e end",
        "if e or not why then return e end",
        f"{_ENTRIES}::TestQuarantine::test_a_malformed_entry_is_set_aside_and_the_others_are_swept",
        shown_by="tests/faults/test_forged.py::test_an_entry_without_its_fields_keeps_no_other_request_from_its_end",
    ),
    Mutant(
        "A plan that a caller has changed is neither searched nor fused",
        "ledger/redis.py",
        "        is_signed = entry.plan is None or self._signer.verifies(mac, *planned)",
        "        is_signed = True",
        f"{_ENTRIES}::TestSignatures::test_what_a_caller_changes_does_not_verify",
        shown_by="tests/faults/test_forged.py::test_a_forged_plan_is_neither_searched_nor_fused",
    ),
    Mutant(
        "An answer of a branch that no worker has signed is a failed branch",
        "tasks/request/ending.py",
        "        if name in entry.forged",
        "        if False",
        "tests/faults/test_forged.py::test_a_forged_answer_of_a_branch_is_a_failed_branch_and_nobody_else_sees_it",
    ),
    Mutant(
        "No queue name is read from an entry",
        "ledger/scripts/sweep.lua",
        "    if b and queue_of[b] then",
        "    if b then",
        f"{_ENTRIES}::TestQueues::test_an_entry_names_no_queue",
        shown_by="tests/faults/test_forged.py::test_a_forged_entry_makes_the_sweeper_push_no_message_to_another_queue",
    ),
)
