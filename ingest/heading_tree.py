"""The sections of a text as a tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingest.headings import headings_of
from ingest.raw_documents import Markup


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


def outline_of(text: str, markup: Markup, title: str) -> Outline:
    """The root of the tree; plain text has no sections."""
    root = Outline(0, (), 0, 0, len(text))
    open_sections = [root]
    for heading in headings_of(text) if markup == "markdown" else ():
        while open_sections[-1].level >= heading.level:
            open_sections.pop().end = heading.start
        parent = open_sections[-1]
        own = () if parent is root and heading.text == title else (heading.text,)
        section = Outline(heading.level, parent.path + own, heading.start, heading.end, len(text))
        parent.children.append(section)
        open_sections.append(section)
    return root
