"""Markdown; the title comes from the front matter, a block of YAML at the very beginning, if it has one."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import yaml

from ingest.clean import clean_text, read_text
from ingest.collection_rows import with_reserved
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record
from models.bounded_yaml import MOST_CHARACTERS, BoundedLoader
from models.not_indexed import NotIndexed

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_ENTRY = re.compile(r"^[\w\"'.-][^:\n]*:(?:[ \t]|$)", re.MULTILINE)
_ENTRY_LINE = re.compile(r"([\w.-]+):(?:[ \t]+(.*))?$")

_ENTITY = re.compile(
    r"(?<!`)(?P<code>`+)(?!`).*?(?<!`)(?P=code)(?!`)|(?<!\\)&(?:#\w+|[A-Za-z]\w*);", re.DOTALL
)
"""Code, in which no entity is read, or an entity."""
_HAS_A_MEANING = frozenset("<>*_`[]#~|=-+\\")

_MOST_LINES = 1_000
"""At most this many lines are read one by one."""

_TYPES = (
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE"), "tTfF"),
    ("null", re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    ("int", re.compile(r"-?(0|[1-9]\d{0,17})"), "-0123456789"),
    ("float", re.compile(r"-?(0|[1-9]\d{0,17})\.\d{1,18}"), "-0123456789"),
)
"""The values that are no texts.  `no`, `007`, `12:30` and dates stay texts, unlike in YAML 1.1."""


class _Yaml(BoundedLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012  PyYAML keeps the table in the class


for _type, _form, _first in _TYPES:
    _Yaml.add_implicit_resolver(
        f"tag:yaml.org,2002:{_type}", re.compile(rf"(?:{_form.pattern})\Z"), [*_first]
    )


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The front matter becomes metadata: texts, numbers, true and false, lists and objects."""
    text = clean_text(read_text(file, max_bytes=options.max_file_bytes))
    front: dict[str, Any] = {}
    unread: list[str] = []
    match = _FRONT_MATTER.match(text)
    block = ((match[1] or "") if match else "").strip()
    # A block without any entry is text between two horizontal rules.
    if match and (not block or _ENTRY.search(block)):
        front, unread = _entries(block)
        text = text[match.end() :]
    text = _ENTITY.sub(_as_read, text)
    title_value = front.pop(options.fields.get("title", "title"), "")
    title = ", ".join(map(str, title_value)) if isinstance(title_value, list) else str(title_value)
    try:
        metadata, notes = with_reserved(front, options.fields)
    except ValueError as error:
        metadata, notes = {}, [f"front matter: {error}; indexed without it"]
    notes += [f"front matter: {line[:60]!r} is not YAML; indexed without it" for line in unread]
    yield from (Fault(NotIndexed.METADATA, note) for note in notes)
    yield Record(text, title, metadata, "markdown")


def _as_read(match: re.Match[str]) -> str:
    """The sign that a person reads for an entity; one that would mean something in Markdown is escaped."""
    if match["code"]:
        return match[0]
    sign = html.unescape(match[0])
    makes_an_entity = sign == "&" and re.match(r"[#\w]+;", match.string[match.end() : match.end() + 40])
    return f"\\{sign}" if sign in _HAS_A_MEANING or makes_an_entity else sign


def _entries(block: str) -> tuple[dict[str, Any], list[str]]:
    """The entries by name, and the lines that are not read.

    What is not YAML as a whole, such as `title: a: b`, is read line by line.
    """
    if (entries := _yaml(block)) is not None:
        return entries, []
    entries, unread = {}, []
    lines = block.split("\n")
    budget = MOST_CHARACTERS
    for line in lines[:_MOST_LINES]:
        if entry := _ENTRY_LINE.match(line):
            parsed = None
            if len(line) <= budget:
                budget -= len(line)
                parsed = _yaml(line)
            entries |= {entry[1]: entry[2] or ""} if parsed is None else parsed
        elif line.strip() and not line.lstrip().startswith("#"):
            unread.append(line.strip())
    return _without_empty(entries), unread + lines[_MOST_LINES : _MOST_LINES + 1]


def _yaml(block: str) -> dict[str, Any] | None:
    """None if it is not YAML with entries, or too long to be read as such in a short time."""
    if len(block) > MOST_CHARACTERS:
        return None
    try:
        parsed = yaml.load(block, Loader=_Yaml)  # noqa: S506  a SafeLoader with less
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if parsed is None:
        return {}
    return (
        _without_empty({str(name): value for name, value in parsed.items()})
        if isinstance(parsed, dict)
        else None
    )


def _without_empty(entries: dict[str, Any]) -> dict[str, Any]:
    stripped = {name: value.strip() if isinstance(value, str) else value for name, value in entries.items()}
    return {name: value for name, value in stripped.items() if value not in (None, "", [])}
