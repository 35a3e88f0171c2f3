"""The headings of a Markdown text, with their offsets, and its sections as a tree."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt

from ingest.clean import clean_line
from ingest.raw_documents import Heading, RawDocument, Record
from ingest.titles import as_title

MAX_HEADING_CHARACTERS = 120
PARSED_LINES, PARSED_CHARACTERS = 20_000, 2_000_000
"""A longer text is not parsed, which would take over a second: each line that begins with `#` is a heading, outside of fenced code."""
MAX_HEADINGS = 10_000
"""A document with more has no sections.  Nobody wrote these headings for readers, and each costs time."""
TOO_MANY_HEADINGS = f"more than {MAX_HEADINGS:,} headings; indexed without sections"

# Inline parsing is slow, and only the headings need it.
_BLOCKS = MarkdownIt("commonmark").disable("inline")
_INLINE = MarkdownIt("commonmark")


_ATX_LINE = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_FENCE_LINE = re.compile(r" {0,3}(```|~~~)")


_READS_AS_MARKUP = re.compile(
    r"#{1,6}(?=\s|$)|`{3}|~{3}|=+$|-+$|<(?:script|pre|style|textarea|[!?])", re.IGNORECASE
)


def escaped_line(line: str) -> str:
    """A line of plain text that begins no heading, fence or block of HTML in Markdown."""
    return f"\\{line}" if _READS_AS_MARKUP.match(line) else line


def headings_of(text: str) -> list[Heading]:
    """Headings in order; a heading inside a quotation or list counts as text."""
    headings = _all_headings(text)
    return headings if len(headings) <= MAX_HEADINGS else []


def has_too_many_headings(text: str) -> bool:
    """Whether `headings_of` leaves out the headings of a Markdown text."""
    return text.count("\n") >= MAX_HEADINGS and len(_all_headings(text)) > MAX_HEADINGS


def _all_headings(text: str) -> list[Heading]:
    is_parsed = len(text) <= PARSED_CHARACTERS and text.count("\n") <= PARSED_LINES
    return _parsed_headings(text) if is_parsed else _scanned_headings(text)


def _scanned_headings(text: str) -> list[Heading]:
    headings: list[Heading] = []
    start, open_fence = 0, ""
    for line in text.split("\n"):
        end = start + len(line) + 1
        if fence := _FENCE_LINE.match(line):
            if not open_fence:
                open_fence = fence[1]
            elif open_fence == fence[1]:
                open_fence = ""
        elif not open_fence and (atx := _ATX_LINE.match(line)):
            headings.append(
                Heading(len(atx[1]), _plain_heading(_without_closing(atx[2])), start, min(end, len(text)))
            )
            if len(headings) > MAX_HEADINGS:
                break
        start = end
    return headings


def _without_closing(heading: str) -> str:
    """The heading without the `#` that may close it after a space: `# One #`, but `# C#`."""
    heading = heading.rstrip()
    before = heading.rstrip("#")
    return before if not before or before[-1] in " \t" else heading


def _parsed_headings(text: str) -> list[Heading]:
    line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    tokens = _BLOCKS.parse(text)
    headings: list[Heading] = []
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            first, after = token.map
            headings.append(
                Heading(
                    int(token.tag[1:]),
                    _plain_heading(inline.content),
                    line_starts[first],
                    min(line_starts[after], len(text)),
                )
            )
    return headings


def with_headings(record: Record, stem: str) -> Record:
    """A cleaned record with its headings.  A file without a title has that of its first heading of level 1, else its `stem`."""
    headings = headings_of(record.text) if record.markup == "markdown" else []
    title = record.title if record.line is not None else as_title(record.title)
    if not title and record.line is None:
        title = next(
            (heading.text for heading in headings if heading.level == 1 and heading.text), clean_line(stem)
        )
    return replace(record, title=title, headings=headings)


def _plain_heading(markdown: str) -> str:
    parts = [
        child.content or " "
        for token in _INLINE.parseInline(markdown[: 10 * MAX_HEADING_CHARACTERS])
        for child in token.children or ()
        if child.type in ("text", "code_inline", "softbreak", "hardbreak")
    ]
    plain = " ".join("".join(parts).split())
    if len(plain) > MAX_HEADING_CHARACTERS:
        return plain[: MAX_HEADING_CHARACTERS - 1].rstrip() + "…"
    return plain


@dataclass(slots=True)
class Outline:
    """A heading with its text and the sections below it; the root has no heading and spans the whole text."""

    level: int
    path: tuple[str, ...]
    """The headings from the root to this one, without a first heading that repeats the document's title."""
    start: int
    """Offset of the heading's line, in characters."""
    body: int
    """Offset of the text after the heading."""
    end: int
    """Offset of the end of the last section below it."""
    children: list[Outline] = field(default_factory=list)


def outline_of(document: RawDocument) -> Outline:
    """The root of the tree; plain text has no sections."""
    end, headings = len(document.text), document.headings
    if headings is None:
        headings = headings_of(document.text) if document.markup == "markdown" else ()
    root = Outline(0, (), 0, 0, end)
    open_sections = [root]
    for heading in headings:
        while open_sections[-1].level >= heading.level:
            open_sections.pop().end = heading.start
        parent = open_sections[-1]
        own = () if parent is root and heading.text == document.title else (heading.text,)
        section = Outline(heading.level, parent.path + own, heading.start, heading.end, end)
        parent.children.append(section)
        open_sections.append(section)
    return root
