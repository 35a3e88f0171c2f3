"""The results of reading: documents, and what could not be read."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from models.not_indexed import NotIndexed

Markup = Literal["plain", "markdown"]
OpenFile: TypeAlias = "io.BufferedReader[Any]"
"""A file while a format reader reads it."""


class Heading(NamedTuple):
    """A heading of a Markdown text."""

    level: int
    """1 to 6."""
    text: str
    """The heading's text without markup, at most `ingest.headings.MAX_HEADING_CHARACTERS`."""
    start: int
    """Offset of the first line, in characters."""
    end: int
    """Offset of the line after the heading."""


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A document that was read and not yet split."""

    document_id: str
    source: str
    title: str
    text: str
    """Cleaned by `ingest.clean`; every offset counts characters of this text."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON values."""
    markup: Markup = "plain"
    path: str = ""
    """The path it was read from, for reports."""
    line: int | None = None
    """Line of the record in its file, from 1."""
    headings: Sequence[Heading] | None = field(default=None, compare=False, repr=False)
    """The headings of a Markdown text, if they are known; the process that parses a file finds them."""
    page_starts: Sequence[int] = ()
    """Offsets of the pages of a PDF, in characters."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not read, or only in part; reading continues."""

    path: str
    reason: NotIndexed
    why: str
    """The reason in this case, and what to do."""
    line: int | None = None
    """Line in a file of records, from 1."""
    spares: str | None = None
    """Prefix of the ids of documents that pruning must not delete, since they may still exist in the unreadable part.

    None if there are none; "" protects the whole source, where records have ids of their own.
    """

    @property
    def is_fault(self) -> bool:
        return self.reason.is_fault

    def __str__(self) -> str:
        return f"{self.path}{f', line {self.line}' if self.line else ''}: {self.why}"


@dataclass(frozen=True, slots=True)
class Record:
    """A document as a format reader returns it, without a document id."""

    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    markup: Markup = "plain"
    own_id: str | None = None
    line: int | None = None
    headings: Sequence[Heading] | None = None
    page_starts: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A part of a file that a format reader could not use; the rest is read."""

    reason: NotIndexed
    """With `is_part`, the document was read without the wrong part."""
    why: str
    line: int | None = None


class Unreadable(Exception):
    """A whole file cannot be read; the message says why and what to do."""

    def __init__(self, reason: NotIndexed, why: str) -> None:
        super().__init__(why)
        self.reason = reason


def missing_package(package: str, kind: str, extra: str) -> Unreadable:
    """The library of a format is not installed."""
    why = f"{kind} needs the package {package} (the extra `{extra}`): make {extra}, or pip install {package}"
    return Unreadable(NotIndexed.MISSING_PACKAGE, why)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The caller's options."""

    fields: Mapping[str, str]
    """The file's name of a field by our name (`ingest.collection_rows.FIELDS`): `{"published_at": "year"}`."""
    max_file_bytes: int
    """Maximum size of a file that is one document; files of records may have any size."""
    max_line_bytes: int
    """Maximum size of one record."""
    hidden_text: bool = False
    """Also read text that a person does not see; without it, a reader leaves such text out and says so (`HIDDEN_TEXT`)."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What the process that parses files may use; a file that exceeds a limit is not read, or not further."""

    time_s: float = 60
    """Seconds for a file that is one document, and for each record of a collection."""
    memory_mb: float = 1_000
    """Memory of the process, in MB (1,000,000 bytes), besides what an idle one has."""
    output_mb: float = 100
    """What is read of a file that is one document, or of a record, as JSON, in MB."""
