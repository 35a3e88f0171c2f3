"""Options that several commands have."""

from __future__ import annotations

import sys
from typing import Annotated, TypeAlias

import typer

from config.durations import UNITS_S, seconds_in
from config.visible_text import visible

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm_deletion(deleted: str, question: str, *, as_json: bool) -> None:
    """Ask whether to delete; raises Abort if the answer is no, BadParameter where nobody can be asked."""
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter(f"this deletes {deleted}: add --yes", param_hint="--yes")
    typer.confirm(visible(question), abort=True)


def seconds_of(text: str, option: str) -> int:
    """Seconds of a time such as `90d`; raises BadParameter, which names the option and the units."""
    if (seconds := seconds_in(text)) is None:
        units = ", ".join(f"{unit} ({seconds:,} s)" for unit, seconds in UNITS_S.items())
        raise typer.BadParameter(f"{text!r} is no time: a whole number and one of {units}", param_hint=option)
    return seconds
