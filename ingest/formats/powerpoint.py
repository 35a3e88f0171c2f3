"""PowerPoint files (.pptx) with python-pptx, an optional extra: a section for each slide, with its number and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ingest.office import blocks_as_text, package_of, plain, row
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, missing_package

_FRAME = ("DATE", "FOOTER", "SLIDE_NUMBER")
"""Placeholders that repeat on each slide."""
_PRESET_TITLE = "PowerPoint Presentation"


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The title is the document's own, else that of the first slide that has one."""
    try:
        from pptx import Presentation
    except ImportError:
        raise missing_package("python-pptx", "PowerPoint", "office") from None
    package = package_of(file, options)
    slides = list(Presentation(package.content).slides)
    titles = [_title(slide) for slide in slides]
    own_title = "" if package.title == _PRESET_TITLE else package.title
    blocks = [block for number, slide in enumerate(slides, start=1) for block in _blocks(number, slide)]
    yield from package.faults
    has_text = any(not block.startswith("## Slide ") for block in blocks) or any(titles)
    title = own_title or next(filter(None, titles), "")
    yield Record(blocks_as_text(blocks) if has_text else "", title, package.metadata, "markdown")


def _title(slide: Any) -> str:
    return " ".join(slide.shapes.title.text_frame.text.split()) if slide.shapes.title is not None else ""


def _blocks(number: int, slide: Any) -> Iterator[str]:
    title = _title(slide)
    yield f"## Slide {number}: {title}" if title else f"## Slide {number}"
    title_id = slide.shapes.title.shape_id if slide.shapes.title is not None else None
    for shape in _shapes(slide.shapes):
        if shape.shape_id == title_id or (
            shape.is_placeholder and shape.placeholder_format.type.name in _FRAME
        ):
            continue
        if shape.has_text_frame:
            yield plain(shape.text_frame.text)
        elif getattr(shape, "has_table", False):
            rows = (row([cell.text for cell in line.cells]) for line in shape.table.rows)
            yield "\n".join(filter(None, rows))
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and notes.text.strip():
        yield f"Notes: {plain(notes.text)}"


def _shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    """Shapes in order, with those inside of groups."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape
