"""What a command prints with Rich: its result goes to stdout, remarks about it to stderr.

Whatever is printed may contain texts of strangers: everything goes through `config.visible_text` here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from rich import text as rich_text
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.segment import Segment
from rich.style import StyleType
from rich.table import Table

from cli.output import print_json
from config.visible_text import visible

PIPED_WIDTH = 100
"""Width in columns of output that goes to no terminal."""


class Text(rich_text.Text):
    """Rich's text with control characters made visible, before Rich measures and wraps it."""

    def __init__(self, text: str = "", style: StyleType = "", **options: Any) -> None:
        super().__init__(visible(text), style, **options)

    def append(self, text: rich_text.Text | str, style: StyleType | None = None) -> Text:
        super().append(visible(text) if isinstance(text, str) else text, style)
        return self

    @classmethod
    def assemble(cls, *parts: Any, **options: Any) -> Text:
        return cast(Text, super().assemble(*parts, **options))

    def join(self, lines: Iterable[rich_text.Text]) -> Text:
        return cast(Text, super().join(lines))


class _VisibleConsole(Console):
    """Makes control characters visible in all that it renders, including texts that Rich's own views have made."""

    def render_str(self, text: str, **options: Any) -> rich_text.Text:
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=visible(part.text))


def stdout() -> Console:
    return _console(stderr=False)


def stderr() -> Console:
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = _VisibleConsole(stderr=stderr, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def plain_table(*columns: str) -> Table:
    """A table without lines and with dim headings; a column whose heading begins with `>` is right-aligned."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name in columns:
        justify: JustifyMethod = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=justify, overflow="fold")
    return table


def facts_table(facts: Mapping[str, RenderableType]) -> Table:
    """A row for each fact that is not empty: its dim name, and its value."""
    table = plain_table("", "")
    table.show_header = False
    table.columns[0].style = "dim"
    for name, value in facts.items():
        if value:
            table.add_row(name, value)
    return table


def findings_table(findings: Iterable[Mapping[str, Any]]) -> Table:
    """A row for each finding of a check (`monitoring.checks.Running.findings`), with how to mend it."""
    table = plain_table("check", "what is wrong, and how to mend it")
    before = None
    for finding in findings:
        text = Text.assemble(finding["what"], "\n", ("→ ", "green"), (finding["mend"], "green"))
        table.add_row(Text("" if finding["check"] == before else finding["check"], "bold"), text)
        before = finding["check"]
    return table


def counted(count: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def moment(at_ms: int) -> str:
    """Date and time in UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float) -> str:
    """`8 s`, `2 min 05 s`, `3 h 10 min`, `2 d 4 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 48 * 3_600:
        return f"{whole // 3_600} h {whole % 3_600 // 60:02} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def print_result(fields: Mapping[str, Any], *parts: RenderableType, as_json: bool) -> None:
    """Print what a command has found or done: one JSON document, or the parts from top to bottom."""
    if as_json:
        print_json(fields)
        return
    console = stdout()
    for part in parts:
        console.print(part)
