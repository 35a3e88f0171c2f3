"""Promises about texts of strangers on terminals and in logs, and about who may read what is kept."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ROWS = "audit/rows.py"
_OF_ROWS = "tests/unit/audit/test_rows.py"
_OF_TERMINALS = "tests/unit/cli/test_terminal.py"

PROMISES = (
    Mutant(
        "No text that a command prints steers the terminal or hides a part of itself",
        "cli/terminal.py",
        "            yield part if part.control else part._replace(text=visible(part.text))",
        "            yield part",
        f"{_OF_TERMINALS}::test_a_text_of_rich_s_own_is_made_visible_too",
        f"{_OF_TERMINALS}::test_a_hostile_text_is_shown_and_not_obeyed",
    ),
    Mutant(
        "No text in the console's log steers the terminal or looks like a line of its own",
        "config/logging.py",
        "    return [_visible_event, renderer]",
        "    return [renderer]",
        "tests/unit/config/test_logging.py::test_a_hostile_text_is_one_line_of_the_console_and_is_not_obeyed[event]",
    ),
    Mutant(
        "Home, backups and restored data are their owner's alone, whichever command is the first",
        "cli/app.py",
        "    os.umask(0o077)",
        "    os.umask(0o022)",
        "tests/integration/cli/commands/test_private_files.py::test_the_command_that_makes_the_home_makes_it_private[keys]",
    ),
    Mutant(
        "A question whose text is not kept cannot be guessed from the audit tables",
        _ROWS,
        "    return (sha256(text) if key is None else hmac.new(key, text, sha256)).hexdigest()",
        "    return sha256(text).hexdigest()",
        f"{_OF_ROWS}::test_a_question_cannot_be_guessed_from_its_hash",
    ),
    Mutant(
        "Where texts are not kept, the audit tables hold no filters and tags either",
        _ROWS,
        '    left_out = ("questions", "linked", *(() if keep_texts else ("filters", "tags")))',
        '    left_out = ("questions", "linked")',
        f"{_OF_ROWS}::test_without_texts_no_word_of_a_question_is_in_any_row",
    ),
    Mutant(
        "Requests leave the audit tables after CHORALE_AUDIT_KEEP, and no others do",
        "audit/retention.py",
        "        return table_deletion.remove_some(self._engine, table_deletion.older_than(before_ms))",
        "        return table_deletion.remove_some(self._engine, table_deletion.older_than(0))",
        "tests/integration/audit/test_retention.py::test_the_process_that_drains_keeps_what_its_settings_say",
    ),
)
