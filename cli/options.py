"""Options that several commands have."""

from __future__ import annotations

import sys
from typing import Annotated, TypeAlias

import typer

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm_deletion(deleted: str, question: str, *, as_json: bool) -> None:
    """Ask whether to delete; raises Abort if the answer is no, BadParameter where nobody can be asked."""
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter(f"this deletes {deleted}: add --yes", param_hint="--yes")
    typer.confirm(question, abort=True)
