"""Markdown; the title comes from the front matter, if it has one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ingest.clean import clean_text
from ingest.collection_rows import with_reserved
from ingest.decode import read_text
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_ENTRY = re.compile(r"^[\w\"'.-][^:\n]*:(?:[ \t]|$)", re.MULTILINE)
_FLAT_ENTRY = re.compile(r"^([\w.-]+):[ \t]+(\S.*)$", re.MULTILINE)


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """Entries of one line in the front matter (a YAML block at the very beginning) become metadata."""
    text = clean_text(read_text(file, max_bytes=options.max_file_bytes))
    front: dict[str, str] = {}
    found = _FRONT_MATTER.match(text)
    block = ((found[1] or "") if found else "").strip()
    # A block without any entry is text between two horizontal rules.
    if found and (not block or _ENTRY.search(block)):
        front = {name: value.rstrip(" \t").strip("\"'") for name, value in _FLAT_ENTRY.findall(block)}
        text = text[found.end() :]
    title = front.pop(options.fields.get("title", "title"), "")
    metadata, notes = with_reserved(front, options.fields)
    yield from (Fault(note, loses_document=False) for note in notes)
    yield Record(text, title, metadata, "markdown")
