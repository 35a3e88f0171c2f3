"""PowerPoint files (.pptx) with python-pptx, an optional extra: a section for each slide, with its number and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ingest.formats.office_drawings import ELEMENTS as DRAWINGS
from ingest.formats.office_drawings import drawing_text, related
from ingest.office import blocks_as_text, package_of, plain, row
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, missing_package
from ingest.titles import as_title
from models.not_indexed import NotIndexed

_FRAME = ("DATE", "FOOTER", "SLIDE_NUMBER")
"""Placeholders that repeat on each slide."""
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_ALTERNATIVES = "//*[local-name() = 'AlternateContent'][parent::p:spTree or parent::p:grpSp]"


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The title is that of the first slide, else the document's own, else that of the first slide that has one."""
    try:
        from pptx import Presentation
    except ImportError:
        raise missing_package("python-pptx", "PowerPoint", "office") from None
    package = package_of(file, options)
    sections: list[str] = []
    titles: list[str] = []
    hidden: list[str] = []
    drawn: set[str] = set()
    for number, slide in enumerate(Presentation(package.content).slides, start=1):
        seen, unseen = _texts(slide, drawn, reads_hidden=options.hidden_text)
        if unseen:
            hidden.append(str(number))
        if seen is None:
            continue
        titles.append(title := _title(slide))
        sections += [f"## Slide {number}: {title}" if title else f"## Slide {number}", *seen]
    yield from package.faults
    if hidden:
        what = f"hidden slides, or boxes on slides: {', '.join(hidden)}"
        yield Fault(NotIndexed.HIDDEN_TEXT, f"{what}; --hidden-text reads it")
    has_text = len(sections) > len(titles) or any(titles)
    title = next(filter(None, (*titles[:1], as_title(package.title), *titles)), "")
    yield Record(blocks_as_text(sections) if has_text else "", title, package.metadata, "markdown")


def _title(slide: Any) -> str:
    return " ".join(slide.shapes.title.text_frame.text.split()) if slide.shapes.title is not None else ""


def _texts(slide: Any, drawn: set[str], *, reads_hidden: bool) -> tuple[list[str] | None, bool]:
    """The texts of a slide besides its title, and whether a hidden one was left out; None for a hidden slide.  `drawn` gets the
    names of the parts of its drawings."""
    for ink in slide._element.xpath("//p:contentPart"):
        ink.getparent().remove(ink)
    for alternatives in slide._element.xpath(_ALTERNATIVES):
        # python-pptx does not read them.  The first one has the newer shapes, such as formulas.
        for shape in next(iter(alternatives), ()):
            alternatives.addprevious(shape)
    own_title = slide.shapes.title
    shapes = [
        shape
        for shape in _shapes(slide.shapes)
        if own_title is None or shape.shape_id != own_title.shape_id
        if not (shape.is_placeholder and shape.placeholder_format.type.name in _FRAME)
    ]
    seen, unseen = list[str](), list[str]()
    for shape in shapes:
        is_hidden = not reads_hidden and bool(
            shape._element.xpath("./*/p:cNvPr[@hidden='1' or @hidden='true']")
        )
        (unseen if is_hidden else seen).append(_text(shape, drawn))
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and notes.text.strip():
        seen.append(f"Notes: {plain(notes.text)}")
    seen = [*filter(None, seen)]
    if slide._element.get("show") in ("0", "false") and not reads_hidden:
        return None, bool(seen or _title(slide))
    return seen, any(unseen)


def _text(shape: Any, drawn: set[str]) -> str:
    if shape.has_text_frame:
        return plain(_words(shape.text_frame))
    if getattr(shape, "has_table", False):
        # `shape.table.rows` collects all rows for each row.
        cells = shape.table.iter_cells()
        lines = (islice(cells, len(line.tc_lst)) for line in shape.table._tbl.tr_lst)
        rows = (row([_words(cell.text_frame) for cell in line]) for line in lines)
        return "\n".join(filter(None, rows))
    drawings = shape._element.xpath(f".//*[{' or '.join(f'local-name() = {name!r}' for name in DRAWINGS)}]")
    return "\n".join(filter(None, (drawing_text(related(shape.part.rels, drawn), one) for one in drawings)))


def _words(frame: Any) -> str:
    """The paragraphs of a text, also the letters and numbers of formulas."""
    marks = {f"{_A}br": "\n", f"{_A}p": "\n"}
    parts = frame._element.iter(f"{_A}t", f"{_M}t", *marks)
    return "".join(marks.get(part.tag) or part.text or "" for part in parts)


def _shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    """Shapes as one reads them, from top to bottom and from left to right, with those inside of groups."""
    ordered = sorted(shapes, key=lambda shape: shape.top or 0)
    while ordered:
        # A row has the shapes that begin above the middle of its first shape.
        middle = (ordered[0].top or 0) + (ordered[0].height or 0) / 2
        count = sum((shape.top or 0) < middle for shape in ordered) or 1
        for shape in sorted(ordered[:count], key=lambda shape: shape.left or 0):
            if hasattr(shape, "shapes"):
                yield from _shapes(shape.shapes)
            else:
                yield shape
        ordered = ordered[count:]
