"""Options that several commands have."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from config.visible_text import visible

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
OlderThan: TypeAlias = Annotated[
    str, typer.Option("--older-than", metavar="TIME", help="As in 90d, 12h or 30m: days, hours, minutes.")
]
Configuration: TypeAlias = Annotated[
    str | None, typer.Option("--configuration", "-c", help="A configuration of the pipeline file.")
]
RequestOptions: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--options",
        metavar="JSON",
        help="Other options of a request, as one JSON object.",
        show_default=False,
    ),
]
Namespace: TypeAlias = Annotated[str, typer.Option("--namespace", "-n", help="Name of the namespace.")]
QuestionNamespace: TypeAlias = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace of questions that name none.")
]
EncoderName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--encoder", metavar="NAME", help="A declared encoder; by default the namespace's own, or `default`."
    ),
]
Split: TypeAlias = Annotated[str, typer.Option(help="Name of the judgements: `qrels/<split>.tsv`.")]
Limit: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Use only this many judged questions, the first ones.")
]
CollectionFolder: TypeAlias = Annotated[
    Path, typer.Argument(help="A collection in the BEIR layout: corpus.jsonl, queries.jsonl, qrels/.")
]


def command_group(help_: str) -> typer.Typer:
    """A command that has commands of its own."""
    return typer.Typer(help=help_, no_args_is_help=True, rich_markup_mode="markdown")


def confirm_deletion(deleted: str, question: str, *, as_json: bool) -> None:
    """Ask whether to delete; raises Abort if the answer is no, BadParameter where nobody can be asked."""
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter(f"this deletes {deleted}: add --yes", param_hint="--yes")
    typer.confirm(visible(question), abort=True)


def seconds_of(text: str, option: str, *, most_days: int | None = None) -> int:
    """Seconds of a time such as `90d`; raises BadParameter, which names the option and the units.

    With `most_days`, the time has to be above 0 and at most so long.
    """
    from config.settings import UNITS_S, seconds_in

    if (seconds := seconds_in(text)) is None:
        units = ", ".join(f"{unit} ({seconds:,} s)" for unit, seconds in UNITS_S.items())
        raise typer.BadParameter(f"{text!r} is no time: a whole number and one of {units}", param_hint=option)
    if most_days is not None and not 0 < seconds <= most_days * UNITS_S["d"]:
        raise typer.BadParameter(f"from 1s to {most_days}d", param_hint=option)
    return seconds
