"""Word files (.docx) with python-docx, an optional extra: headings, paragraphs, lists, tables, text boxes and notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ingest.office import blocks_as_text, package_of, plain, row
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, missing_package

if TYPE_CHECKING:
    from docx.document import Document

_LEFT_OUT = ("Fallback", "del", "moveFrom", "pPr", "rPr", "rt", "sectPr")
"""Second copies of text boxes, what was deleted or moved away, properties, and the reading of ruby characters."""
_SIGNS = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "p": "\n"}
_MOST_ANCESTORS = 20
"""Styles that a style is based on; a damaged file may have a circle of them."""
_CONTENTS = "contents"


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """Headings are the paragraphs whose style is Title or Heading 1 to 9, or is based on one of them."""
    try:
        import docx
    except ImportError:
        raise missing_package("python-docx", "Word", "office") from None
    package = package_of(file, options)
    document = docx.Document(package.content)
    marks = _marks(document)
    bodies = [document.element.body, *_notes(document)]
    text = blocks_as_text(_block(block, marks) for body in bodies for block in _blocks(body))
    yield from package.faults
    yield Record(text, package.title, package.metadata, "markdown")


def _marks(document: Document) -> dict[str, str]:
    """What stands before a paragraph, by the id of its style."""
    marks: dict[str, str] = {}
    for style in document.styles:
        ancestor: Any = style
        mark = ""
        for _ in range(_MOST_ANCESTORS):
            if ancestor is None or mark:
                break
            mark = _mark((ancestor.name or "").lower())
            ancestor = getattr(ancestor, "base_style", None)
        marks[style.style_id] = mark
    return marks


def _mark(style: str) -> str:
    kind, _, level = style.partition(" ")
    if kind == "heading" and level.isdigit():
        return "#" * min(int(level), 6) + " "
    if kind == "toc":
        return _CONTENTS
    return {"title": "# ", "list bullet": "- ", "list number": "- "}.get(style.rstrip(" 2345"), "")


def _notes(document: Document) -> Iterator[Any]:
    """Footnotes and endnotes."""
    from docx.oxml import parse_xml

    for relation in document.part.rels.values():
        if relation.reltype.endswith(("/footnotes", "/endnotes")) and not relation.is_external:
            yield parse_xml(relation.target_part.blob)


def _blocks(node: Any) -> Iterator[Any]:
    """The paragraphs and tables in order, also those of content controls and text boxes."""
    for child in node:
        name = _name(child)
        if name in ("p", "tbl"):
            yield child
        if name != "tbl" and name not in _LEFT_OUT:
            yield from _blocks(child)


def _block(block: Any, marks: dict[str, str]) -> str:
    if _name(block) == "tbl":
        rows = (row([_text(cell) for cell in _nearest(line, "tc")]) for line in _nearest(block, "tr"))
        return "\n".join(filter(None, rows))
    # The paragraphs of a text box are blocks of their own.
    mark, text = marks.get(block.style or "", ""), _text(block, ("txbxContent", *_LEFT_OUT))
    if mark == _CONTENTS or not text.strip():
        return ""
    if not mark and block.xpath("./w:pPr/w:numPr"):
        mark = "- "
    return mark + " ".join(text.split()) if mark else plain(text)


def _nearest(node: Any, name: str) -> Iterator[Any]:
    """The nearest descendants of this name, also those in content controls."""
    for child in node:
        if _name(child) == name:
            yield child
        elif _name(child) not in ("tbl", *_LEFT_OUT):
            yield from _nearest(child, name)


def _text(node: Any, left_out: tuple[str, ...] = _LEFT_OUT) -> str:
    return "".join(_texts(node, left_out))


def _texts(node: Any, left_out: tuple[str, ...]) -> Iterator[str]:
    for child in node:
        name = _name(child)
        if name == "t":
            yield child.text or ""
        elif name not in left_out:
            yield from _texts(child, left_out)
            yield _SIGNS.get(name, "")


def _name(node: Any) -> str:
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""
