"""Turns a row of a collection (a JSON object, a line of CSV) into a record or into lines; cleans a document's metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from ingest.clean import clean_line, clean_value
from ingest.raw_documents import Fault, Markup, Record, Unreadable
from models.documents import RESERVED_METADATA
from models.not_indexed import NotIndexed

FIELDS = ("id", "title", "text", *RESERVED_METADATA)
"""Our names of fields; a mapping says which names a file has for them."""

SHORT_CHARACTERS = 1_000
"""A longer value of a row without a text is only in its text, and not in its metadata."""

_NUMBER = re.compile(r"[\d.,]+")
_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d{2}))?")
_ATX_HEADING = re.compile(r"^ {0,3}#{1,6} +\S", re.MULTILINE)


def check_fields(fields: Mapping[str, str]) -> None:
    """Raise ValueError for an unknown field; the message lists the known ones."""
    for name in fields:
        if name not in FIELDS:
            raise ValueError(f"there is no field {name!r} to map; there are: {', '.join(FIELDS)}")


def as_lines(row: Mapping[str, Any]) -> str:
    """`name: value` lines.  An object's names stand behind its own (`size.width: 3`), and a list of values on one line."""
    return "\n".join(_lines("", row))


def _lines(name: str, value: Any) -> Iterator[str]:
    match value:
        case dict():
            for inner, item in value.items():
                yield from _lines(f"{name}.{inner}" if name else str(inner), item)
        case list() if any(isinstance(item, dict | list) for item in value):
            for item in value:
                yield from _lines(name, item)
        case _:
            items = value if isinstance(value, list) else [value]
            if joined := ", ".join(filter(None, map(_one_line, items))):
                yield f"{name}: {joined}" if name else joined


def _one_line(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else " ".join(str(value).split())


def with_text(
    row: Mapping[str, Any], fields: Mapping[str, str], *, written: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """A row without a field for the text has its fields as lines there; its metadata are the short ones.

    `written` has the fields of the lines where they differ from those of the row.  A row that has only an id and a title stays as it
    is, and so does every row if `fields` name one for the text.
    """
    title, text = fields.get("title", "title"), "text"
    inner = row.get("metadata")
    if "text" in fields or text in row or (isinstance(inner, dict) and text in inner):
        return row
    own = {name for name, kind in ((title, str), ("metadata", dict)) if isinstance(row.get(name), kind)}
    lines = {name: value for name, value in (row if written is None else written).items() if name not in own}
    if not as_lines({name: lines[name] for name in lines.keys() - {"id", "_id", fields.get("id")}}):
        return row
    return {
        **{name: value for name, value in row.items() if name in own or _is_short(value)},
        text: as_lines(lines),
    }


def _is_short(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return not any(isinstance(item, dict | list) for item in items) and len(str(value)) <= SHORT_CHARACTERS


def record_of(row: Mapping[str, Any], fields: Mapping[str, str], *, line: int) -> Iterator[Record | Fault]:
    """The record in a row, and its faults.

    A field is taken from the row, else from its `metadata`; the other fields of the row become metadata.  The text is
    Markdown if it contains a heading such as `## Install`.
    """
    try:
        inner = row.get("metadata")
        if inner is not None and not isinstance(inner, dict):
            raise ValueError(f"metadata: {_kind(inner)}, not an object")
        within = {name: value for name, value in (inner or {}).items() if value is not None}
        outer = {name: value for name, value in row.items() if name != "metadata" and value not in (None, "")}
        everything = {**within, **outer}
        id_field = fields.get("id") or ("_id" if "_id" in row else "id")
        title_field, text_field = fields.get("title", "title"), fields.get("text", "text")
        own_id = id_text(everything.get(id_field))
        title, text = (_text(everything, name) for name in (title_field, text_field))
        if not title.strip() and not text.strip():
            why = f"no text: {text_field!r} and {title_field!r} are missing or empty"
            raise Unreadable(NotIndexed.NO_TEXT, why)
        own = {id_field, title_field, text_field}
        others = {**within, **{name: value for name, value in outer.items() if name not in own}}
        metadata, notes = with_reserved(others, fields)
    except (ValueError, RecursionError, Unreadable) as error:
        yield Fault(error.reason if isinstance(error, Unreadable) else NotIndexed.MALFORMED, str(error), line)
        return
    twice = [name for name in outer if name not in own and within.get(name, "") not in ("", outer[name])]
    notes += [f"metadata: {name!r} has another value in the row itself; indexed without it" for name in twice]
    yield from (Fault(NotIndexed.METADATA, note, line) for note in notes)
    markup: Markup = "markdown" if _ATX_HEADING.search(text) else "plain"
    yield Record(text, title, metadata, markup, own_id, line)


def with_reserved(metadata: Mapping[str, Any], fields: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Cleaned metadata with the reserved names filled in, and a sentence for each value that was ignored.

    Raises ValueError for a value that JSON cannot represent.
    """
    try:
        cleaned: dict[str, Any] = clean_value(dict(metadata))
    except ValueError as error:
        raise ValueError(f"metadata: {error}") from None
    notes: list[str] = []
    for name in RESERVED_METADATA:
        value, own = cleaned.get(fields.get(name, name)), cleaned.pop(name, None)
        if own not in (None, "", value):
            notes.append(f"{name}: {fields[name]!r} stands for it; indexed without {str(own)[:60]!r}")
        if value is None or value == "":
            continue
        if name == "published_at":
            if (moment := iso_moment(value)) is None:
                notes.append(f"published_at: {str(value)[:60]!r} is not an ISO 8601 date; indexed without it")
                continue
            cleaned[name] = moment
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            cleaned[name] = clean_line(str(value))
        else:
            notes.append(f"{name}: {_kind(value)}, not a text; indexed without it")
    return cleaned, notes


def iso_moment(value: Any) -> str | None:
    """An ISO 8601 date or time; a year or month becomes its first day.  None for anything else.

    A number is a year if it has four digits, and a day if it has eight.  Python would accept more: it reads 1755100612,
    which is a count of seconds, as the 6th of October 1755.
    """
    text = str(value).strip()
    if _NUMBER.fullmatch(text) and not (text.isdigit() and len(text) in (4, 8)):
        return None
    try:
        if whole := _YEAR_OR_MONTH.fullmatch(text):
            return date(int(whole[1]), int(whole[2] or 1), 1).isoformat()
        if len(text) <= len("2026-01-31"):
            return date.fromisoformat(text).isoformat()
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return None


def id_text(value: Any) -> str | None:
    """The id as text; None if it is empty.  Raises ValueError for anything but a text or a whole number."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"the id is {_kind(value)}, not a text or a whole number")
    return str(value)


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name!r} is {_kind(value)}, not a text")
    return value or ""


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "a truth value", int: "a number", float: "a number"}
    return names.get(type(value), "a text" if isinstance(value, str) else type(value).__name__)


def properties_as_metadata(
    author: str, dates: Mapping[str, str], fields: Mapping[str, str]
) -> tuple[dict[str, Any], list[Fault]]:
    """`author`, the dates in ISO 8601, and a fault for each date in another form."""
    moments = {name: iso_moment(date) for name, date in dates.items() if date.strip()}
    own = {"author": author.strip()} | {name: moment or "" for name, moment in moments.items()}
    metadata, notes = with_reserved({name: value for name, value in own.items() if value}, fields)
    notes += [
        f"{name}: {dates[name][:60]!r} is not a date; indexed without it"
        for name, moment in moments.items()
        if moment is None
    ]
    return metadata, [Fault(NotIndexed.METADATA, note) for note in notes]
