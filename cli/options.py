"""Options that several commands have, and the filters and options of a request on the command line: `year>=2020` becomes
`{"year": {"gte": 2020}}`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

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


PLAIN_HELP: Mapping[str, Any] = {
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 120},
}
"""Options of every Typer app.  Rich, with its reader of Markdown, takes longer to import than all else of `chorale --help`."""


def command_group(help_: str) -> typer.Typer:
    """A command that has commands of its own."""
    return typer.Typer(help=help_, no_args_is_help=True, **PLAIN_HELP)


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


OPERATORS = {">=": "gte", "<=": "lte", "!=": "not", ">": "gt", "<": "lt", "~": "contains", "=": ""}
"""The operator of the request by the sign on the command line; `=` has none, the request has the bare value."""

SYNTAX = """\
FIELD=VALUE, FIELD=A,B (any of them), FIELD!=VALUE, FIELD>=VALUE (also > <= <), FIELD~PART (part of a text),
FIELD=* (has it), FIELD!=* (has it not); a value in double quotes is taken as it stands"""

_FILTER = re.compile(r"([^<>=!~]+)(>=|<=|!=|>|<|~|=)(.*)", re.DOTALL)
_VALUE = re.compile(r'(?:\s*"((?:[^"\\]|\\.)*)"\s*|([^",]*))(,|$)')
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")


class WrongFilter(typer.BadParameter):
    """A filter that cannot be read; the message says what is wrong and shows the syntax."""

    def __init__(self, message: str) -> None:
        super().__init__(message, param_hint="--filter")


def parse_filters(texts: Iterable[str]) -> dict[str, Any]:
    """The filters of a request; all conditions must hold, also several on one field.  Raises WrongFilter.

    For equality a value that looks like a number or a truth value is compared as such and as text: a collection may
    hold either (`year=2020` becomes `[2020, "2020"]`).
    """
    filters: dict[str, Any] = {}
    for text in texts:
        field, operator, operand = _parse(text)
        if field not in filters:
            filters[field] = {operator: operand} if operator else operand
            continue
        known = filters[field]
        if not operator or not isinstance(known, dict):
            raise WrongFilter(
                f"filter {text!r}: {field!r} has a condition already; any of several is {field}=A,B"
            )
        if operator in known:
            raise WrongFilter(f"filter {text!r}: {field!r} has that condition already")
        known[operator] = operand
    return filters


def _parse(text: str) -> tuple[str, str, Any]:
    """Field, operator of the request (empty for equality) and operand."""
    match = _FILTER.fullmatch(text)
    field, sign, value = [part.strip() for part in match.groups()] if match else ("", "", "")
    if not field:
        raise WrongFilter(f"filter {text!r} is none of: {SYNTAX}")
    operator = OPERATORS[sign]
    if value == "*" and operator in ("", "not"):
        return field, "exists", not operator
    values = _values(text, value)
    if operator in ("", "not"):
        choices = [choice for part, is_quoted in values for choice in _meanings(part, is_quoted)]
        return field, operator, choices if len(choices) > 1 else choices[0]
    if operator == "contains":
        return field, operator, [part for part, _ in values] if len(values) > 1 else values[0][0]
    if len(values) > 1:
        raise WrongFilter(f"filter {text!r}: {sign} takes one value")
    return field, operator, _meanings(*values[0])[0]


def _values(text: str, value: str) -> list[tuple[str, bool]]:
    """The values between commas, and whether each was quoted."""
    values: list[tuple[str, bool]] = []
    position = 0
    while True:
        match = _VALUE.match(value, position)
        if match is None:
            raise WrongFilter(f"filter {text!r}: the quotes do not close, or something follows them")
        quoted, plain, comma = match.groups()
        part = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain.strip()
        if not part and quoted is None:
            raise WrongFilter(f'filter {text!r}: a value is missing; an empty text is ""')
        values.append((part, quoted is not None))
        if not comma:
            return values
        position = match.end()


def _meanings(value: str, is_quoted: bool) -> list[Any]:
    """The values that a text may stand for, the likeliest first."""
    if not is_quoted:
        if match := _NUMBER.fullmatch(value):
            return [float(value) if match[2] else int(value), value]
        if value in ("true", "false"):
            return [value == "true", value]
    return [value]


def parse_options(text: str | None) -> dict[str, Any]:
    """The options of a request that `--options` holds; raises BadParameter."""
    if text is None:
        return {}
    try:
        options = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--options") from None
    if not isinstance(options, dict):
        raise typer.BadParameter('not a JSON object such as {"depth": 50}', param_hint="--options")
    return options
