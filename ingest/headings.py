"""The headings of a Markdown text, with their offsets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt

MAX_HEADING_CHARACTERS = 120

# Inline parsing is slow, and only the headings need it.
_BLOCKS = MarkdownIt("commonmark").disable("inline")
_INLINE = MarkdownIt("commonmark")


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    """1 to 6."""
    text: str
    """The heading's text without markup, at most MAX_HEADING_CHARACTERS."""
    start: int
    """Offset of the first line, in characters."""
    end: int
    """Offset of the line after the heading."""


def headings_of(text: str) -> list[Heading]:
    """Headings in order; a heading inside a quotation or list counts as text."""
    line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    tokens = _BLOCKS.parse(text)
    found: list[Heading] = []
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            first, after = token.map
            found.append(
                Heading(
                    int(token.tag[1:]),
                    _shown(inline.content),
                    line_starts[first],
                    min(line_starts[after], len(text)),
                )
            )
    return found


def _shown(markdown: str) -> str:
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
