"""JSON documents: an object is a document, and a list of objects a collection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ingest.clean import read_text
from ingest.collection_rows import as_lines, record_of, with_text
from ingest.formats.json_lines import parsed
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record
from models.not_indexed import NotIndexed


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """An object in a list is read as a line of JSON lines is, with its number in place of the line's."""
    if not (text := read_text(file, max_bytes=options.max_file_bytes)).strip():
        return
    value = parsed(text.encode())
    is_list = isinstance(value, list) and any(isinstance(item, dict) for item in value)
    if not is_list and not isinstance(value, dict):
        yield Record(as_lines({"": value}))
        return
    for number, item in enumerate(value if is_list else [value], start=1):
        if not isinstance(item, dict):
            yield Fault(NotIndexed.MALFORMED, f"item {number} is not a JSON object")
            continue
        for result in record_of(with_text(item, options.fields), options.fields, line=number):
            yield result if is_list else replace(result, line=None)
