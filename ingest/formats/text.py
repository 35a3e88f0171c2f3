"""Plain text; it has no title of its own."""

from __future__ import annotations

from collections.abc import Iterator

from ingest.clean import read_text
from ingest.raw_documents import OpenFile, ReadOptions, Record


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record]:
    yield Record(read_text(file, max_bytes=options.max_file_bytes))
