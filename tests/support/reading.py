"""What is read of files in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ingest.raw_documents import RawDocument, Skipped
from ingest.read import read_documents


def read_all(*paths: Path, **options: Any) -> tuple[list[RawDocument], list[Skipped]]:
    """The documents of the files and folders, and what was skipped."""
    items = list(read_documents(paths, **{"source": "s", **options}))
    documents = [item for item in items if isinstance(item, RawDocument)]
    return documents, [item for item in items if isinstance(item, Skipped)]


def document_of(path: Path, **options: Any) -> RawDocument:
    """The only document, of which nothing was skipped."""
    (document,), notes = read_all(path, **options)
    assert notes == []
    return document


def with_note(path: Path, **options: Any) -> tuple[RawDocument, Skipped]:
    """The only document, and what was skipped of it."""
    (document,), (note,) = read_all(path, **options)
    return document, note


def skipped(path: Path, **options: Any) -> Skipped:
    """Why there is no document."""
    documents, (only,) = read_all(path, **options)
    assert documents == []
    return only


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
