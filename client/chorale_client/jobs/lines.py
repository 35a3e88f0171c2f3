"""Reads the lines of a job's input and checks each as a request.  Only one line is in memory; the ids are on disk."""

from __future__ import annotations

import csv
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from pathlib import PurePath
from typing import IO, Any

from pydantic_core import from_json, to_json

from chorale_client.errors import InvalidRequest, display_name, safe_repr
from chorale_client.jobs.job_line import METADATA, JobLine
from chorale_client.limits import (
    MAX_JOB_BYTES,
    MAX_LINE_BYTES,
    MAX_LINE_ID_CHARS,
    MAX_LINES,
    MAX_ROW_CHARS,
    MAX_TEXT_CHARS,
)
from chorale_client.request import Request
from chorale_client.request_factory import make_request

SEPARATORS = ",;\t|"
"""The separator of a CSV file is the one of these that its header has most often."""

_NOT_OF_A_LINE = {
    "v",
    "questions",
    "request_id",
    "timeout_s",
    "hedge",
    "on_end",
    "linked",
    "headers",
    "traceparent",
}
LINE_OPTIONS = tuple(name for name in Request.model_fields if name not in _NOT_OF_A_LINE)
"""Options of a request that a line may have, and the defaults of all lines."""
LINE_FIELDS = ("id", "text", "questions", METADATA, *LINE_OPTIONS)
_TEXTS = frozenset(
    {"id", "text", "correlation_id", "namespace", "configuration", "fusion", "group_by", "now"}
)
"""Columns of CSV that are never read as JSON."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_TOO_LONG = f"longer than {MAX_LINE_BYTES:,} bytes"


class UniqueIds:
    """Finds ids that were there before.  They are in a temporary file, so memory stays the same for any number."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for statement in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "CREATE TABLE seen (id TEXT PRIMARY KEY, line INTEGER) WITHOUT ROWID",
            "BEGIN",
        ):
            self._database.execute(statement)

    def claim(self, identifier: str, line: int) -> int | None:
        """None if the id is new, else the number of the line that has it."""
        added = self._database.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (identifier, line))
        if added.rowcount:
            return None
        (first,) = self._database.execute("SELECT line FROM seen WHERE id = ?", (identifier,)).fetchone()
        return int(first)

    def close(self) -> None:
        self._database.close()


def form_of(name: str, form: str | None = None) -> str:
    """The format: `form`, else by the file's name; `-` is JSON lines.  Raises InvalidRequest, which lists the formats."""
    chosen = form or ("jsonl" if name == "-" else _SUFFIXES.get(PurePath(name).suffix.lower(), ""))
    if chosen not in FORMS:
        why = safe_repr(form) if form else f"the name {safe_repr(name[-80:])} does not tell it"
        raise InvalidRequest(f"format: {why}; there are: {', '.join(FORMS)}")
    return chosen


def defaults_in(namespace: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of all lines of a job in this namespace.  Raises InvalidRequest if they name another one."""
    if (named := options.get("namespace", namespace)) != namespace:
        raise InvalidRequest(f"namespace: {safe_repr(named)}; the job's is {safe_repr(namespace)}")
    return {**options, "namespace": namespace}


def read_lines(
    stream: IO[bytes],
    *,
    form: str,
    defaults: Mapping[str, Any] | None = None,
    applied: Callable[[Request], Request] = lambda request: request,
) -> Iterator[JobLine]:
    """The lines in the order of the input; blank lines are left out, wrong lines have an error.

    `defaults` are options of a request for all lines; a line's own option wins.  A `namespace` in `defaults` is the job's,
    and a line may not name another.  `applied` narrows each line's request, or raises InvalidRequest; lines with equal
    options and one plain question may share one call.  Raises InvalidRequest for wrong defaults at once.  While reading,
    raises it for an input that cannot be used at all: too many lines or bytes, UTF-16, a wrong header of CSV.
    """
    rows = FORMS[form_of("", form)]
    return _checked(rows(stream), _Checks(defaults or {}, applied))


def _checked(rows: Iterator[tuple[int, dict[str, Any] | str]], checks: _Checks) -> Iterator[JobLine]:
    with closing(UniqueIds()) as ids:
        for count, (number, row) in enumerate(rows, start=1):
            if count > MAX_LINES:
                raise InvalidRequest(
                    f"line {number}: more than {MAX_LINES:,} lines; make several jobs of them"
                )
            identifier = str(number)
            try:
                if isinstance(row, str):
                    raise InvalidRequest(row)
                identifier = _id_of(row.pop("id", None)) or identifier
                if (first := ids.claim(identifier, number)) is not None:
                    raise InvalidRequest(f"id: {safe_repr(identifier)} is also the id of line {first}")
                yield JobLine(number, identifier, checks.fields(row), None)
            except InvalidRequest as error:
                yield JobLine(number, identifier, None, str(error))


def _id_of(value: Any) -> str | None:
    if value is None:
        return None
    text = str(value) if type(value) is int and abs(value) < 10**18 else value
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_LINE_ID_CHARS or not text.isprintable():
        raise InvalidRequest(
            f"id: 1-{MAX_LINE_ID_CHARS} printable characters, or a whole number; not {safe_repr(value)}"
        )
    return text


class _Checks:
    """Checks lines as requests.  Equal options are checked once."""

    def __init__(self, defaults: Mapping[str, Any], applied: Callable[[Request], Request]) -> None:
        _refuse_unknown(defaults, "the defaults", LINE_OPTIONS)
        self._defaults = dict(defaults)
        self._applied = applied
        self._options = lru_cache(maxsize=1_024)(self._options_of)
        self._plain = self._options_of(b"{}")

    def fields(self, row: dict[str, Any]) -> dict[str, Any]:
        """The options with the questions; raises InvalidRequest."""
        metadata = row.pop(METADATA, None)
        if metadata is None:
            return self._request_fields(row)
        if not isinstance(metadata, dict):
            raise InvalidRequest(f"{METADATA}: an object, not {safe_repr(metadata)}")
        return {**self._request_fields(row), METADATA: metadata}

    def _request_fields(self, row: dict[str, Any]) -> dict[str, Any]:
        text, questions = row.pop("text", None), row.pop("questions", None)
        if (text is None) == (questions is None):
            raise InvalidRequest("text: a line has either a `text` or `questions`")
        if row:
            _refuse_unknown(row, "a line", LINE_FIELDS)
            self._refuse_namespace(row)
        if questions is None and isinstance(text, str) and len(text) <= MAX_TEXT_CHARS:
            if not text.strip():
                raise InvalidRequest("text: empty")
            options = self._options(to_json(row)) if row else self._plain
            return {**options, "questions": [{"text": text}]}
        questions = [{"text": text}] if questions is None else questions
        return self._wire(make_request(questions, **{**self._defaults, **row}))

    def _wire(self, request: Request) -> dict[str, Any]:
        not_of_a_line = {"namespace", "request_id", "timeout_s"}
        return self._applied(request).model_dump(mode="json", exclude_defaults=True, exclude=not_of_a_line)

    def _options_of(self, options: bytes) -> dict[str, Any]:
        fields = self._wire(make_request("-", **{**self._defaults, **from_json(options)}))
        del fields["questions"]
        return fields

    def _refuse_namespace(self, row: dict[str, Any]) -> None:
        job_namespace = self._defaults.get("namespace")
        if (namespace := row.pop("namespace", job_namespace)) != job_namespace:
            whose = f", {safe_repr(job_namespace)}" if job_namespace else ""
            raise InvalidRequest(
                f"namespace: {safe_repr(namespace)}; every line is asked in the job's namespace{whose}"
            )


def _refuse_unknown(names: Iterable[str], owner: str, allowed: tuple[str, ...]) -> None:
    if unknown := [name for name in names if name not in allowed]:
        names = ", ".join(map(display_name, unknown[:3]))
        raise InvalidRequest(f"{names}: no field of {owner}; there are: {', '.join(allowed)}")


def _json_rows(stream: IO[bytes]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    for number, raw in _raw_lines(stream):
        if raw is None:
            yield number, _TOO_LONG
        elif line := raw.rstrip():
            try:
                row = from_json(line, allow_inf_nan=False, cache_strings="keys")
            except ValueError as error:
                yield number, _why_not_utf8(raw) or f"not JSON: {re.sub('(?<= at )line 1 ', '', str(error))}"
            else:
                yield number, row if isinstance(row, dict) else "not a JSON object"


def _csv_rows(stream: IO[bytes]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    header: list[str] = []
    for number, cells in enumerate(_records(_TextLines(stream)), start=1):
        if number == 1:
            if isinstance(cells, str):
                raise InvalidRequest(f"line 1: the header is {cells}")
            header = _header(cells)
        elif isinstance(cells, str):
            yield number, cells
        elif any(cell and not cell.isspace() for cell in cells):
            yield number, _row(header, cells)


def _records(lines: _TextLines) -> Iterator[list[str] | str]:
    """The cells of each record, or what is wrong with it."""
    first = next(lines, "")
    records = csv.reader(chain([first], lines), delimiter=max(SEPARATORS, key=first.count), strict=True)
    while True:
        lines.chars = 0
        try:
            cells = next(records)
        except StopIteration:
            return
        except (csv.Error, _LongRow) as error:
            yield lines.fault or f"not CSV: {error} (read up to line {records.line_num} of the file)"
        else:
            yield lines.fault or cells
        lines.fault = None


def _header(cells: list[str]) -> list[str]:
    header = [name.strip() for name in cells]
    names = ", ".join(map(display_name, header))[:200]
    if "text" not in header:
        raise InvalidRequest(f"line 1: the header has no column `text`; it has: {names}")
    if len(set(header)) < len(header):
        raise InvalidRequest(f"line 1: two columns have the same name: {names}")
    for name in header:
        if name not in LINE_FIELDS and (
            matches := get_close_matches(name.lower(), LINE_FIELDS, 1, cutoff=0.8)
        ):
            raise InvalidRequest(f"line 1: {display_name(name)}: no field of a line; is {matches[0]} meant?")
    return header


def _row(header: list[str], cells: list[str]) -> dict[str, Any] | str:
    if len(cells) != len(header):
        return f"{len(cells)} columns, and the header has {len(header)}"
    row = {name: cell for name, cell in zip(header, cells, strict=True) if cell and not cell.isspace()}
    columns = {name: row.pop(name) for name in [name for name in row if name not in LINE_FIELDS]}
    fields = {name: cell if name in _TEXTS else _value(cell) for name, cell in row.items()}
    if columns:
        metadata = fields.get(METADATA, {})
        fields[METADATA] = {**columns, **metadata} if isinstance(metadata, dict) else metadata
    return fields


def _value(cell: str) -> Any:
    """The JSON value, if the cell is one."""
    try:
        return from_json(cell, allow_inf_nan=False)
    except ValueError:
        return cell


class _LongRow(Exception):
    """A quotation mark is probably not closed.  The `csv` module's own limit belongs to the whole process."""

    def __str__(self) -> str:
        return f"a row has more than {MAX_ROW_CHARS:,} characters; perhaps a quotation mark is not closed"


class _TextLines(Iterator[str]):
    """The lines as text.  `fault` says what is wrong with a line that was read; the reader of records empties it, and sets
    `chars` to 0 before each record."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines = _raw_lines(stream)
        self.fault: str | None = None
        self.chars = 0

    def __next__(self) -> str:
        """Raises _LongRow."""
        _, raw = next(self._lines)
        if raw is None:
            self.fault = _TOO_LONG
            return "\n"
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            self.fault = _why_not_utf8(raw)
            text = raw.decode(errors="replace")
        self.chars += len(text)
        if self.chars > MAX_ROW_CHARS:
            raise _LongRow
        return text


def _raw_lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None for a line that is too long, which is never in memory as a whole."""
    number = size = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        size += len(raw)
        if number == 1:
            if raw.startswith(_UTF_16):
                raise InvalidRequest("line 1: encoded as UTF-16; save the file as UTF-8")
            raw = raw.removeprefix(b"\xef\xbb\xbf") or b"\n"
        is_whole = len(raw) <= MAX_LINE_BYTES
        while not is_whole and raw and not raw.endswith(b"\n"):
            raw = stream.readline(MAX_LINE_BYTES)
            size += len(raw)
        if size > MAX_JOB_BYTES:
            raise InvalidRequest(
                f"line {number}: more than {MAX_JOB_BYTES:,} bytes; make several jobs of them"
            )
        yield number, raw if is_whole else None


def _why_not_utf8(raw: bytes) -> str | None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{raw[error.start]:02x} at column {error.start + 1}"
    return None


FORMS: dict[str, Callable[[IO[bytes]], Iterator[tuple[int, dict[str, Any] | str]]]] = {
    "jsonl": _json_rows,
    "csv": _csv_rows,
}
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}
