"""Reads files and folders into documents, one at a time: a large collection is never in memory as a whole."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from chorale_client.documents import checked_list, write_documents
from chorale_client.limits import MAX_DELETED, MAX_DOCUMENT_BYTES

from ingest.clean import cleaned
from ingest.collection_rows import check_fields, id_text, record_of
from ingest.document_ids import checked_id, checked_source, default_source, file_id, record_id
from ingest.headings import TOO_MANY_HEADINGS, has_too_many_headings
from ingest.parser_process import ParserProcess
from ingest.raw_documents import (
    Fault,
    Markup,
    RawDocument,
    ReadLimits,
    ReadOptions,
    Record,
    Skipped,
    Unreadable,
)
from ingest.walk import Entry, find
from models.not_indexed import NotIndexed

ADVICE = {
    "convert it to Markdown, for example with pandoc": ".odt .rtf .epub .tex .org .ipynb",
    "save it as PDF or HTML": ".odp .pages .key",
    "save it as .docx, .pptx or .xlsx": ".doc .ppt .xls .docm .pptm .xlsm .dotx .potx .xltx",
    "save each sheet as CSV": ".ods .numbers .xlsb",
    "write its text with an OCR program": ".png .jpg .jpeg .gif .tif .tiff .webp .bmp",
    "unpack it": ".zip .tar .gz .tgz .bz2 .xz .7z",
}


def why_unread(suffix: str, readable: Iterable[str]) -> str:
    """Why a file with this suffix is not read, and what to do."""
    advice = next((advice for advice, suffixes in ADVICE.items() if suffix.lower() in suffixes.split()), None)
    hint = f": {advice}" if advice else f"; there are: {', '.join(readable)}"
    return f"no reader for {suffix or 'names without a suffix'}{hint}"


Ids = Literal["path", "given"]

FORMATS = {
    ".txt": "text",
    ".text": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".rst": "restructured_text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".csv": "csv_rows",
    ".tsv": "csv_rows",
    ".jsonl": "json_lines",
    ".ndjson": "json_lines",
    ".json": "json_document",
    ".pdf": "pdf",
    ".docx": "word",
    ".pptx": "powerpoint",
    ".xlsx": "excel",
}
"""Reader (`ingest.formats.<reader>`) by suffix in lower case."""

COLLECTIONS = frozenset({"csv_rows", "json_lines", "json_document"})
"""Readers of files with many documents, which may have their own ids."""


def read_documents(
    paths: Sequence[Path | str],
    *,
    source: str | None = None,
    ids: Ids = "path",
    fields: Mapping[str, str] | None = None,
    follows_links: bool = False,
    hidden_text: bool = False,
    limits: ReadLimits | None = None,
    max_file_bytes: int = 32 * 1024 * 1024,
    max_line_bytes: int = MAX_DOCUMENT_BYTES,
) -> Iterator[RawDocument | Skipped]:
    """The documents in files and folders, and what could not be read.

    `source` defaults to the name of the folder or file; it is required where the paths have different names.  A file
    that is one document may have `max_file_bytes`, a record `max_line_bytes`, a collection any size.  `fields` maps our
    fields to the file's names (`{"published_at": "year", "text": "body"}`).  `hidden_text` also reads what a person does
    not see.

    Files are parsed in a process of their own, within `limits`.  `follows_links`: see `ingest.walk.find`.

    An id is `<source>/<path inside the folder>`; for a record of a collection `#<its id>` follows (`#line-<n>` without
    an id).  The id of a file that was given by itself is `<source>/<its name>`, or `<source>` if that is its name.  With
    `ids="given"`, as judged collections need it, the record's own id is the document id; no other source of the
    namespace may then use the same ids.

    Raises ValueError (sources, fields, ids) and FileNotFoundError before anything is read, and nothing later.
    """
    options = ReadOptions(dict(fields or {}), max_file_bytes, max_line_bytes, hidden_text)
    check_fields(options.fields)
    if ids not in ("path", "given"):
        raise ValueError(f"ids: {ids!r}; there are: path, given")
    starts = [Path(path) for path in paths]
    for path in starts:
        if not os.path.lexists(path):
            raise FileNotFoundError(f"{path} does not exist")
    sources = {checked_source(source)} if source is not None else {default_source(path) for path in starts}
    if len(sources) > 1:
        raise ValueError(
            f"the paths have different sources ({', '.join(sorted(sources))}): name one source for all with `--source`"
        )
    reading = _Reading(next(iter(sources), ""), ids, options, limits or ReadLimits())
    return reading.read(starts, follows_links=follows_links)


def estimated_documents(paths: Sequence[Path | str], *, follows_links: bool = False) -> int:
    """Roughly how many documents `read_documents` will yield, for a progress bar."""
    files = (file for path in paths for file in find(Path(path), follows_links=follows_links))
    return sum(map(_estimated, files))


def _estimated(entry: Entry) -> int:
    reader = FORMATS.get(entry.path.suffix.lower())
    if reader not in COLLECTIONS or entry.open is None:
        return int(reader is not None and entry.open is not None)
    try:
        with io.FileIO(entry.open()) as file:
            size = os.fstat(file.fileno()).st_size
            blocks = iter(partial(file.read, 1 << 20), b"")
            return sum(block.count(b"\n") for block in islice(blocks, -(-size // (1 << 20))))
    except (OSError, Unreadable):
        return 0


@dataclass(frozen=True, slots=True)
class _Reading:
    """One call of `read_documents`."""

    source: str
    ids: Ids
    options: ReadOptions
    limits: ReadLimits

    def read(self, paths: Sequence[Path], *, follows_links: bool) -> Iterator[RawDocument | Skipped]:
        with ParserProcess(self.limits) as process:
            for path in paths:
                is_folder = path.is_dir()
                for entry in find(path, follows_links=follows_links):
                    inside = "" if not is_folder and entry.inside == self.source else entry.inside
                    file = file_id(self.source, inside)
                    if entry.open is None:
                        # A folder may contain collections with their own ids.
                        spares = ("" if self.ids == "given" else file) if entry.reason.is_fault else None
                        yield Skipped(_printable(entry.path), entry.reason, entry.why_not, spares=spares)
                    else:
                        yield from self._file(process, entry.path, entry.open, file)

    def _file(
        self, process: ParserProcess, path: Path, opens: Callable[[], int], file: str
    ) -> Iterator[RawDocument | Skipped]:
        printable = _printable(path)
        reader = FORMATS.get(path.suffix.lower())
        if reader is None:
            yield Skipped(printable, NotIndexed.UNKNOWN_FORMAT, why_unread(path.suffix, FORMATS))
            return
        try:
            file = checked_id(file)
        except ValueError as error:
            yield Skipped(printable, NotIndexed.WRONG_ID, str(error))
            return
        collection = reader in COLLECTIONS
        own_ids = self.ids == "given" and collection
        spared = "" if own_ids else file
        count = 0
        try:
            for result in process.parse(opens(), path.name, reader, self.options):
                count += 1
                if isinstance(result, Fault):
                    spares = None if result.reason.is_part else spared
                    yield Skipped(printable, result.reason, result.why, result.line, spares=spares)
                else:
                    yield document_of(
                        result, printable, self.source, file, own_ids=own_ids, collection=collection
                    )
        except Unreadable as error:
            yield Skipped(printable, error.reason, str(error), spares=spared)
        except OSError as error:
            why = f"cannot be read: {error.strerror or error}"
            yield Skipped(printable, NotIndexed.NOT_OPENED, why, spares=spared)
        else:
            if not count:
                yield Skipped(printable, NotIndexed.EMPTY, "empty")


def document_of(
    record: Record, path: str, source: str, file: str, *, own_ids: bool, collection: bool
) -> RawDocument | Skipped:
    """The cleaned record with its document id; `file` is the id of its file."""
    if not record.text:
        reason = NotIndexed.EMPTY if record.line is None else NotIndexed.NO_TEXT
        return Skipped(path, reason, "empty: there is no text in it", record.line)
    document_id = file
    if collection:
        if own_ids and record.own_id is not None:
            document_id = record.own_id
        elif record.own_id is not None or record.line is not None:
            document_id = record_id(file, record.own_id, record.line)
    try:
        document_id = checked_id(document_id)
    except ValueError as error:
        return Skipped(path, NotIndexed.WRONG_ID, str(error), record.line)
    return RawDocument(
        document_id,
        source,
        record.title,
        record.text,
        record.metadata,
        record.markup,
        path,
        record.line,
        record.headings,
        tuple(record.page_starts),
    )


def _printable(path: Path) -> str:
    return str(path).encode("utf-8", "backslashreplace").decode()


def read_rows(rows: Sequence[Any], *, source: str) -> Iterator[RawDocument | Skipped]:
    """The documents in rows of `{id, title, text, metadata}`; a row that is wrong or too large is skipped.

    A row's `markup` is `plain` or `markdown`; without it, a text with headings is Markdown.  `page_starts` are the offsets of
    its pages in its text, in characters.  Raises ValueError if the rows
    are too much for one message.
    """
    checked_source(source)
    for number, (row, written) in enumerate(zip(rows, write_documents(rows), strict=True), start=1):
        where = f"document {number}"
        why = written.fault if isinstance(row, Mapping) else f"{type(row).__name__}, not an object"
        if why is not None:
            is_json = isinstance(row, Mapping) and not why.startswith("not JSON")
            yield Skipped(where, NotIndexed.TOO_LARGE if is_json else NotIndexed.MALFORMED, why, spares="")
            continue
        row = dict(row)
        pages = row.pop("page_starts") if _are_offsets(row.get("page_starts")) else ()
        markup: Markup | None = row.pop("markup") if row.get("markup") in get_args(Markup) else None
        for result in record_of(row, {}, line=number):
            if isinstance(result, Fault):
                yield Skipped(where, result.reason, result.why, spares=None if result.reason.is_part else "")
            elif result.own_id is None:
                yield Skipped(where, NotIndexed.WRONG_ID, "it has no id", spares="")
            else:
                result = replace(result, page_starts=pages)
                record = cleaned(result if markup is None else replace(result, markup=markup))
                if record.markup == "markdown" and has_too_many_headings(record.text):
                    yield Skipped(where, NotIndexed.HEADINGS, TOO_MANY_HEADINGS)
                yield document_of(record, where, source, source, own_ids=True, collection=True)


def _are_offsets(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(type(one) is int and one >= 0 for one in value)
        and value == sorted(value)
    )


def last_of_each(items: Iterable[RawDocument | Skipped]) -> list[RawDocument | Skipped]:
    """Keep the last of several documents with the same id, and skip the earlier ones."""
    items = list(items)
    last = {item.document_id: item for item in items if isinstance(item, RawDocument)}
    return [
        item
        if isinstance(item, Skipped) or (later := last[item.document_id]) is item
        else Skipped(item.path, NotIndexed.SUPERSEDED, f"{later.path} has the same id and replaces it")
        for item in items
    ]


def read_ids(values: Iterable[Any]) -> tuple[list[str], list[Skipped]]:
    """Document ids, and what is not an id.  Raises ValueError if `values` is no list, or too long for one message."""
    ids, skipped = [], []
    for number, value in enumerate(checked_list("ids", values, most=MAX_DELETED), start=1):
        try:
            ids.append(checked_id(id_text(value) or ""))
        except ValueError as error:
            skipped.append(Skipped(f"id {number}", NotIndexed.WRONG_ID, str(error)))
    return ids, skipped
