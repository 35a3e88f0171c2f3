"""Plain text; the title is the name of the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ingest.decode import read_text
from ingest.raw_documents import ReadOptions, Record


def read(path: Path, options: ReadOptions) -> Iterator[Record]:
    yield Record(read_text(path, max_bytes=options.max_file_bytes), path.stem)
