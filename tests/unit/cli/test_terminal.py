"""Nothing that a command prints steers the terminal, wherever the text comes from."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from chorale_client.answer import Answer
from rich.console import Console
from rich.live import Live
from rich.text import Text as RichText

from cli import terminal
from cli.answer_view import show_answer
from cli.exit_codes import exit_with
from cli.indexing.view import show_omitted
from cli.local.child_process import JsonLines, PrefixedLines
from cli.output import print_json
from cli.progress import ProgressBar
from cli.terminal import Text, facts_table, plain_table
from ingest.raw_documents import Skipped
from models.errors import ServiceError
from models.not_indexed import NotIndexed
from tasks.indexing.indexing_run import IndexReport
from tests.architecture.product import ROOT
from tests.support.command_line import in_process

BAD = "\x1b]8;;http://evil\x1b\\\a\x9b2J\u202e\u2066\u200b\r[bold][link=http://evil]"
VISIBLE = r"\x1b]8;;http://evil\x1b" + "\\" + r"\x07\x9b2J\u202e\u2066\u200b\x0d[bold][link=http://evil]"
_STYLES = re.compile(r"\x1b\[[\d;]*m|\x1b\[\?25[hl]|\x1b\[(?:2K|1A)|\r")
"""What Rich itself sends: styles, the cursor, and the lines of live views."""


CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2066\u200b]")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stdout", _Terminal())
    made = terminal.stdout()
    made.file = sys.stdout
    return made


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert not CONTROLS.search(_STYLES.sub("", text))
    return text


def _live(console: Console) -> None:
    with Live(facts_table({"note": BAD}), console=console, auto_refresh=False) as live:
        live.update(plain_table(BAD), refresh=True)


def _progress(console: Console) -> None:
    with ProgressBar(console) as bar:
        bar.say(BAD)
        bar.refresh()


def _table(console: Console) -> None:
    table = plain_table(BAD)
    table.add_row(BAD)
    table.add_row(Text(BAD))
    console.print(table)


WAYS: dict[str, Callable[[Console], Any]] = {
    "a line": lambda console: console.print(BAD),
    "a text": lambda console: console.print(Text(BAD, "bold")),
    "an assembled text": lambda console: console.print(Text.assemble("x ", (BAD, "dim")).append(BAD)),
    "a table": _table,
    "facts": lambda console: console.print(facts_table({BAD: BAD})),
    "a live view": _live,
    "a progress bar": _progress,
    "a rule": lambda console: console.rule(BAD),
}


@pytest.mark.parametrize("show", WAYS.values(), ids=WAYS)
def test_a_hostile_text_is_shown_and_not_obeyed(show: Callable[[Console], Any], console: Console) -> None:
    show(console)
    assert VISIBLE in printed(console)


def test_a_text_of_rich_s_own_is_made_visible_too(console: Console) -> None:
    console.print(RichText("\x1b]52;c;x"))
    assert printed(console) == r"\x1b]52;c;x" + "\n"


def test_an_answer_from_hostile_documents_is_shown(console: Console) -> None:
    hit = dict.fromkeys(("document_id", "title", "url", "passage_id", "source_type", "published_at"), BAD)
    snippet = {"text": f"a {BAD}", "highlights": [[0, 1]]}
    hits = [{**hit, "rank": 1, "score": 1.0, "snippet": snippet, "boosts": {BAD: 1.25}}]
    degraded = [{"where": "search.bm25", "reason": "endpoint", "detail": BAD}]
    fields = {"request_id": "r1", "status": "degraded", "took_ms": 3, "retry_after_s": 2, "warnings": [BAD]}
    questions = [{"status": "degraded", "hits": hits}]
    answer = Answer.model_validate({**fields, "questions": questions, "degraded": degraded})
    show_answer(console, answer, explain=True)
    assert printed(console).count(r"\x1b]8;;http://evil") >= 5


def test_json_keeps_the_values_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    ordinary = "é 漢字 👩\u200d💻 می\u200cخواهم"
    print_json({"title": BAD, "ordinary": ordinary})
    text = capsys.readouterr().out
    assert json.loads(text)["title"] == BAD
    assert ordinary in text
    assert not re.search("[\x9b\u202e]", text)


@pytest.mark.parametrize(
    ("error", "is_process"),
    [(ServiceError(BAD), False), (OSError(5, "broken", BAD), False), (ValueError(BAD), True)],
)
def test_an_error_is_shown_and_not_obeyed(
    error: Exception, is_process: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        exit_with(error, is_process=is_process)
    text = capsys.readouterr().err
    assert (VISIBLE in text, "\x1b" in text) == (True, False)


def test_a_file_name_cannot_look_like_a_line_of_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    skipped = Skipped("/docs/a\n0 faults: all is well\x1b[2J.md", NotIndexed.NOT_UTF8, "binary")
    show_omitted(IndexReport(skipped=[skipped]), "this folder")
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == [r"  /docs/a\n0 faults: all is well\x1b[2J.md: binary"]


def test_a_wrong_argument_is_shown_and_not_obeyed() -> None:
    """The shell puts names of files into the arguments."""
    for arguments in (("index", f"/nowhere/{BAD}"), (f"--{BAD}",), ("search", f"--{BAD}")):
        called = in_process(*arguments)
        assert called.returncode == 2
        assert r"\x07\x9b2J\u202e" in re.sub(r"[\s│]", "", called.stderr)  # without the breaks of its frame
        assert not CONTROLS.search(_STYLES.sub("", called.stderr))


def test_the_output_of_processes_is_shown_and_not_obeyed() -> None:
    lines, objects = io.StringIO(), io.StringIO()
    PrefixedLines(lines, ["bm25"])("bm25", BAD.encode())
    JsonLines(objects)("bm25", BAD.encode())
    assert lines.getvalue() == f"bm25 │ {VISIBLE}\n"
    assert json.loads(objects.getvalue()) == {"process": "bm25", "line": BAD}
    assert "\x9b" not in objects.getvalue()


def test_commands_print_through_the_terminal_alone() -> None:
    """Any other way would have to make its texts visible by itself."""
    own = {"cli/output.py", "cli/terminal.py", "cli/exit_codes.py", "cli/jobs/view.py"}
    ways = re.compile(
        r"\bprint\(\w|rich\.text|rich import print|\bs?echo\(|stdout\.write|stderr\.write|\bConsole\("
    )
    violations = {
        f"{name}: {line.strip()}"
        for file in (ROOT / "cli").rglob("*.py")
        if (name := str(file.relative_to(ROOT))) not in own
        for line in file.read_text(encoding="utf-8").splitlines()
        if ways.search(line) and "visible" not in line and ".print(" not in line
    }
    assert not violations
