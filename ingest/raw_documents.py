"""What reading yields: documents, and what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Markup = Literal["plain", "markdown"]


@dataclass(frozen=True, slots=True)
class RawDocument:
    """One thing that was read, before it is split."""

    document_id: str
    source: str
    title: str
    text: str
    """Newlines are `\\n`; no control characters, no surrogates: every offset counts its characters."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON values."""
    markup: Markup = "plain"
    path: str = ""
    """Where it was read, for reports."""
    line: int | None = None
    """Of the record in its file, from 1."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not read, or not read wholly; the rest goes on."""

    path: str
    why: str
    line: int | None = None
    """From 1, in a file of records."""
    is_fault: bool = True
    """False for what is no trouble: a format that nobody reads, an empty file."""
    spares: str | None = None
    """How the ids begin of the documents that it held when it could still be read: pruning leaves them alone.

    None if it holds none; empty, which spares the whole source, where the ids are the records' own.
    """

    def __str__(self) -> str:
        return f"{self.path}{f', line {self.line}' if self.line else ''}: {self.why}"


@dataclass(frozen=True, slots=True)
class Record:
    """What a format reader found: a document without its id."""

    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    markup: Markup = "plain"
    given_id: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """What a format reader could not use in a file whose rest it reads."""

    why: str
    line: int | None = None
    loses_document: bool = True
    """False: the document is there, without the part that was wrong."""


class Unreadable(Exception):
    """A whole file cannot be read; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the caller decides about reading."""

    fields: Mapping[str, str]
    """Our name of a field (`ingest.collection_rows.FIELDS`) to the file's: `{"published_at": "year"}`."""
    max_file_bytes: int
    """Of a file that is one document; files of records are read line by line, however long they are."""
    max_line_bytes: int
    """Of one record."""
