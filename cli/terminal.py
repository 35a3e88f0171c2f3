"""What a command prints: its result goes to stdout, remarks about it to stderr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Table

PIPED_WIDTH = 100
"""Width in columns of output that goes to no terminal."""


def stdout() -> Console:
    return _console(stderr=False)


def stderr() -> Console:
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
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


def counted(count: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def print_json(fields: Mapping[str, Any]) -> None:
    """Print one JSON document with the version of the wire format; numbers that JSON lacks become null."""
    from chorale_client.words import WIRE_VERSION
    from pydantic_core import to_json

    print(to_json({"v": WIRE_VERSION, **fields}, inf_nan_mode="null").decode())
