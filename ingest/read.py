"""Reads files and folders into documents, one at a time: a large collection is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from chorale_client.documents import MAX_DOCUMENT_BYTES

from ingest.clean import clean_line, clean_text
from ingest.collection_rows import check_fields
from ingest.document_ids import checked_id, checked_source, default_source, file_id, record_id
from ingest.formats import csv_rows, html, json_lines, markdown, pdf, restructured_text, text
from ingest.raw_documents import Fault, RawDocument, ReadOptions, Record, Skipped, Unreadable
from ingest.walk import walk

Reader = Callable[[Path, ReadOptions], Iterator[Record | Fault]]
Ids = Literal["path", "given"]

FORMATS: dict[str, Reader] = {
    ".txt": text.read,
    ".text": text.read,
    ".md": markdown.read,
    ".markdown": markdown.read,
    ".rst": restructured_text.read,
    ".html": html.read,
    ".htm": html.read,
    ".xhtml": html.read,
    ".csv": csv_rows.read,
    ".tsv": csv_rows.read,
    ".jsonl": json_lines.read,
    ".ndjson": json_lines.read,
    ".pdf": pdf.read,
}
"""Reader by suffix in lower case."""

COLLECTIONS = frozenset({csv_rows.read, json_lines.read})
"""Readers of files with many documents, which may have their own ids."""

MAX_TITLE_CHARACTERS = 300


def read_documents(
    paths: Sequence[Path | str],
    *,
    source: str | None = None,
    ids: Ids = "path",
    fields: Mapping[str, str] | None = None,
    max_file_bytes: int = 32 * 1024 * 1024,
    max_line_bytes: int = MAX_DOCUMENT_BYTES,
) -> Iterator[RawDocument | Skipped]:
    """The documents in files and folders, and what could not be read.

    `source` defaults to the name of the folder or file; it is required where the paths have different names.  A file
    that is one document may have `max_file_bytes`, a record `max_line_bytes`, a collection any size.  `fields` maps our
    fields to the file's names (`{"published_at": "year", "text": "body"}`).

    An id is `<source>/<path inside the folder>`; for a record of a collection `#<its id>` follows (`#line-<n>` without
    an id).  The id of a file that was given by itself is `<source>/<its name>`, or `<source>` if that is its name.  With
    `ids="given"`, as judged collections need it, the record's own id is the document id; no other source of the
    namespace may then use the same ids.

    Raises ValueError (sources, fields, ids) and FileNotFoundError before anything is read, and nothing later.
    """
    options = ReadOptions(dict(fields or {}), max_file_bytes, max_line_bytes)
    check_fields(options.fields)
    if ids not in ("path", "given"):
        raise ValueError(f"ids: {ids!r}; there are: path, given")
    found = [Path(path) for path in paths]
    for path in found:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
    sources = {checked_source(source)} if source is not None else {default_source(path) for path in found}
    if len(sources) > 1:
        raise ValueError(
            f"the paths have different sources ({', '.join(sorted(sources))}): name one source for all"
        )
    return _read_all(found, next(iter(sources), ""), ids, options)


def estimated_documents(paths: Sequence[Path | str]) -> int:
    """Roughly how many documents `read_documents` will yield, for a progress bar."""
    return sum(_estimated(path) for path in map(Path, paths))


def _estimated(path: Path) -> int:
    if path.is_dir():
        return sum(_estimated(found.path) for found in walk(path) if found.why_not is None)
    reader = FORMATS.get(path.suffix.lower())
    if reader not in COLLECTIONS or not path.is_file():
        return int(reader is not None)
    try:
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except OSError:
        return 0


def _read_all(
    paths: list[Path], source: str, ids: Ids, options: ReadOptions
) -> Iterator[RawDocument | Skipped]:
    for path in paths:
        if not path.is_dir():
            inside = "" if path.name == source else path.name
            if path.is_file():
                yield from _read_file(path, source, inside, ids, options, named=True)
            else:
                yield Skipped(
                    _shown(path), "neither a file nor a folder", spares=_spared(source, inside, ids)
                )
            continue
        for found in walk(path):
            if found.why_not is None:
                yield from _read_file(found.path, source, found.inside, ids, options, named=False)
            else:
                spared = _spared(source, found.inside, ids)
                yield Skipped(_shown(found.path), found.why_not, spares=spared)


def _read_file(
    path: Path, source: str, inside: str, ids: Ids, options: ReadOptions, *, named: bool
) -> Iterator[RawDocument | Skipped]:
    """`named`: the caller named this file, so an unknown format is a fault."""
    shown = _shown(path)
    reader = FORMATS.get(path.suffix.lower())
    if reader is None:
        why = f"no reader for {path.suffix or 'names without a suffix'}; there are: {', '.join(FORMATS)}"
        yield Skipped(shown, why, is_fault=named)
        return
    try:
        file = checked_id(file_id(source, inside))
    except ValueError as error:
        yield Skipped(shown, str(error))
        return
    own_ids = ids == "given" and reader in COLLECTIONS
    spared = "" if own_ids else file
    found_any = False
    try:
        for found in reader(path, options):
            found_any = True
            if isinstance(found, Fault):
                spares = spared if found.loses_document else None
                yield Skipped(shown, found.why, found.line, spares=spares)
            else:
                yield document_of(
                    found, shown, source, file, own_ids=own_ids, collection=reader in COLLECTIONS
                )
    except Unreadable as error:
        yield Skipped(shown, str(error), spares=spared)
    except OSError as error:
        yield Skipped(shown, f"cannot be read: {error.strerror or error}", spares=spared)
    # Parsers raise any exception for a malformed file; reading must continue.
    except Exception as error:
        yield Skipped(shown, f"cannot be read: {type(error).__name__}: {str(error)[:200]}", spares=spared)
    else:
        if not found_any:
            yield Skipped(shown, "empty", is_fault=False)


def document_of(
    record: Record, path: str, source: str, file: str, *, own_ids: bool, collection: bool
) -> RawDocument | Skipped:
    """The record, cleaned and with its document id; `file` is the id of its file."""
    title, text = clean_line(record.title), clean_text(record.text)
    if not text.strip():
        if not collection:
            return Skipped(path, "empty: there is no text in it", is_fault=False)
        text = title
    if len(title) > MAX_TITLE_CHARACTERS:
        # A long title is also put into the text, so that all of it can be found.
        if not text.startswith(title):
            text = f"{title}\n\n{text}"
        title = title[: MAX_TITLE_CHARACTERS - 1].rstrip() + "…"
    document_id = file
    if collection:
        given = record.given_id if own_ids else None
        document_id = given if given is not None else record_id(file, record.given_id, record.line)
    try:
        document_id = checked_id(document_id)
    except ValueError as error:
        return Skipped(path, str(error), record.line)
    return RawDocument(document_id, source, title, text, record.metadata, record.markup, path, record.line)


def _spared(source: str, inside: str, ids: Ids) -> str:
    """See `Skipped.spares`; a folder that cannot be opened may contain collections with their own ids."""
    return "" if ids == "given" else file_id(source, inside)


def _shown(path: Path) -> str:
    return str(path).encode("utf-8", "backslashreplace").decode()
