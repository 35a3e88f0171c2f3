"""Markdown; the title comes from the front matter, if it has one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ingest.clean import clean_text
from ingest.collection_rows import with_reserved
from ingest.decode import read_text
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record
from models.left_out import LeftOut

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_ENTRY = re.compile(r"^[\w\"'.-][^:\n]*:(?:[ \t]|$)", re.MULTILINE)
_ENTRY_LINE = re.compile(r"([\w.-]+):(?:[ \t]+(.*))?$")
_ITEM_LINE = re.compile(r"[ \t]*-[ \t]+(.*)")
_BLOCK_MARK = re.compile(r"^[>|][+-]?[ \t]+")


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """Texts and lists of texts in the front matter (a YAML block at the very beginning) become metadata."""
    text = clean_text(read_text(file, max_bytes=options.max_file_bytes))
    front: dict[str, str | list[str]] = {}
    unread: list[str] = []
    found = _FRONT_MATTER.match(text)
    block = ((found[1] or "") if found else "").strip()
    # A block without any entry is text between two horizontal rules.
    if found and (not block or _ENTRY.search(block)):
        front, unread = _entries(block)
        text = text[found.end() :]
    given = front.pop(options.fields.get("title", "title"), "")
    title = given if isinstance(given, str) else ", ".join(given)
    metadata, notes = with_reserved(front, options.fields)
    notes += [
        f"front matter: {line[:60]!r} is not a text or a list of texts; indexed without it" for line in unread
    ]
    yield from (Fault(LeftOut.METADATA, note) for note in notes)
    yield Record(text, title, metadata, "markdown")


def _entries(block: str) -> tuple[dict[str, str | list[str]], list[str]]:
    """The entries by name, and the lines that are not read.  A text may go on in indented lines."""
    entries: dict[str, str | list[str]] = {}
    unread: list[str] = []
    name = ""
    for line in block.split("\n"):
        value = entries.get(name)
        if entry := _ENTRY_LINE.match(line):
            name = entry[1]
            entries[name] = _unquoted(entry[2] or "")
        elif not line.strip() or line.lstrip().startswith("#"):
            continue
        elif (item := _ITEM_LINE.match(line)) and (isinstance(value, list) or value == ""):
            entries[name] = [*(value or ()), _unquoted(item[1])]
        elif value and isinstance(value, str) and line[0] in " \t":
            entries[name] = _unquoted(f"{value} {line.strip()}")
        else:
            unread.append(line.strip())
    texts = {
        name: _BLOCK_MARK.sub("", one, count=1) if isinstance(one, str) else one
        for name, one in entries.items()
    }
    return {name: one for name, one in texts.items() if one}, unread


def _unquoted(value: str) -> str:
    return value.strip(" \t").strip("\"'")
