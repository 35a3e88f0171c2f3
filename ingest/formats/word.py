"""Word files (.docx) with python-docx, an optional extra: headings, paragraphs, lists, tables, text boxes and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ingest.formats.office_drawings import ELEMENTS as DRAWINGS
from ingest.formats.office_drawings import drawing_text, related
from ingest.formats.word_numbers import Numbers, W, value_of
from ingest.office import PartOf, blocks_as_text, package_of, plain, row
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, missing_package
from models.not_indexed import NotIndexed

if TYPE_CHECKING:
    from docx.document import Document

_OMITTED = ("Fallback", "del", "moveFrom", "pPr", "rPr", "rt", "sectPr")
"""Second copies of text boxes, what was deleted or moved away, properties, and the reading of ruby characters."""
_SIGNS = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "p": "\n", "num": "/"}
_SIGNS_BEFORE = {"sup": "^", "sub": "_"}
"""With `num`, the numerator: the parts of formulas."""
_SYMBOLS = {
    "F0FC": "✓",
    "F052": "☑",
    "F0FE": "☒",
    "F078": "☒",
    "F0FD": "☒",
    "F0A8": "☐",
    "F06F": "☐",
    "F071": "☐",
}
"""The states of check boxes in Wingdings."""
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
    reading = _Reading(
        {style.style_id: _style(style) for style in document.styles},
        Numbers(next(_parts(document, "/numbering"), None), is_english=_is_english(document)),
        related(document.part.rels, set()),
        options.hidden_text,
    )
    bodies = [document.element.body, *_parts(document, "/footnotes", "/endnotes")]
    text = blocks_as_text(reading.block(block) for body in bodies for block in _blocks(body))
    yield from package.faults
    if reading.has_hidden:
        yield Fault(NotIndexed.HIDDEN_TEXT, "hidden text; --hidden-text reads it")
    yield Record(text, package.title, package.metadata, "markdown")


@dataclass(frozen=True, slots=True)
class _Style:
    mark: str
    """The number or sign that Word shows before a paragraph of the list."""
    properties: tuple[Any, ...]
    """The properties of the style, then those of the styles that it is based on."""

    def nearest(self, *path: str) -> Any:
        return next((element for each in self.properties if (element := _at(each, *path)) is not None), None)


def _style(style: Any) -> _Style:
    mark, properties = "", list[Any]()
    ancestor = style
    for _ in range(_MOST_ANCESTORS):
        if ancestor is None:
            break
        mark = mark or _mark((ancestor.name or "").lower())
        properties.append(ancestor.element)
        ancestor = getattr(ancestor, "base_style", None)
    return _Style(mark, tuple(properties))


def _mark(style: str) -> str:
    kind, _, level = style.partition(" ")
    if kind == "heading" and level.isdigit():
        return "#" * min(int(level), 6) + " "
    if kind == "toc":
        return _CONTENTS
    return {"title": "# ", "list bullet": "- ", "list number": "- "}.get(style.rstrip(" 2345"), "")


def _is_english(document: Document) -> bool:
    (defaults,) = document.styles.element.xpath("./w:docDefaults//w:lang[@w:val]")[:1] or (None,)
    return value_of(defaults).lower().startswith("en") or defaults is None


def _parts(document: Document, *kinds: str) -> Iterator[Any]:
    from docx.oxml import parse_xml

    for relation in document.part.rels.values():
        if relation.reltype.endswith(kinds) and not relation.is_external:
            yield parse_xml(relation.target_part.blob)


def _blocks(node: Any) -> Iterator[Any]:
    """The paragraphs, tables, charts and diagrams in order, also those of content controls and text boxes."""
    for child in node:
        name = _name(child)
        if name in ("p", "tbl", *DRAWINGS):
            yield child
        if name != "tbl" and name not in _OMITTED:
            yield from _blocks(child)


@dataclass(slots=True)
class _Reading:
    """One reading of a document, in its order."""

    styles: Mapping[str, _Style]
    numbers: Numbers
    part_of: PartOf
    reads_hidden: bool
    has_hidden: bool = False
    """Whether a text was left out."""

    def block(self, block: Any) -> str:
        if _name(block) == "tbl":
            rows = (
                row([self._text(cell) for cell in _nearest(line, "tc")]) for line in _nearest(block, "tr")
            )
            return "\n".join(filter(None, rows))
        if _name(block) in DRAWINGS:
            return drawing_text(self.part_of, block)
        style = self._style_of(block)
        number = self._number(block, style)
        # Drawings, and the paragraphs of a text box, are blocks of their own.
        text = self._text(block, ("txbxContent", *DRAWINGS, *_OMITTED))
        if style.mark == _CONTENTS or not text.strip():
            return ""
        mark = style.mark
        if number is not None:
            mark = mark if mark.startswith("#") else ""
            mark += f"{number} " if number else "" if mark else "- "
        return mark + " ".join(text.split()) if mark else plain(text)

    def _style_of(self, paragraph: Any) -> _Style:
        return self.styles.get(paragraph.style or "", _NO_STYLE)

    def _number(self, block: Any, style: _Style) -> str | None:
        """The paragraph's number; None if it is in no list."""
        element = _at(block, "pPr", "numPr")
        if element is None:
            element = style.nearest("pPr", "numPr")
        if element is None:
            return None
        # The number of a list in a style may be that of the style's own ancestor.
        list_of = _at(element, "numId")
        list_id = value_of(list_of if list_of is not None else style.nearest("pPr", "numPr", "numId"))
        if list_id in ("", "0"):
            return None
        level = value_of(_at(element, "ilvl"))
        return self.numbers.next(list_id, int(level or 0))

    def _text(self, node: Any, omitted: tuple[str, ...] = _OMITTED) -> str:
        return "".join(self._texts(node, omitted))

    def _texts(self, node: Any, omitted: tuple[str, ...]) -> Iterator[str]:
        for child in node:
            name = _name(child)
            if name == "t":
                yield child.text or ""
            elif name == "sym":
                yield _SYMBOLS.get(value_of(child, "char").upper(), "")
            elif name == "checkBox":
                checked = _at(child, "checked")
                yield "[x]" if _is_on(checked if checked is not None else _at(child, "default")) else "[ ]"
            elif name == "r" and not self.reads_hidden and self._is_hidden(child):
                self.has_hidden = self.has_hidden or bool(
                    "".join(self._texts(child, ("rPr", *omitted))).strip()
                )
            elif name in DRAWINGS and name not in omitted:
                yield f" {drawing_text(self.part_of, child)} "
            elif name not in omitted:
                # A paragraph within another block is one of a table's cell.
                number = self._number(child, self._style_of(child)) if name == "p" else None
                yield f"{number} " if number else _SIGNS_BEFORE.get(name, "")
                yield from self._texts(child, omitted)
                yield _SIGNS.get(name, "")

    def _is_hidden(self, run: Any) -> bool:
        own = _at(run, "rPr", "vanish")
        if own is None:
            paragraph = next(run.iterancestors(f"{W}p"), None)
            styles = value_of(_at(run, "rPr", "rStyle")), value_of(_at(paragraph, "pPr", "pStyle"))
            style = next((element for name in styles if (element := self.styles.get(name))), _NO_STYLE)
            own = style.nearest("rPr", "vanish")
        return _is_on(own)


_NO_STYLE = _Style("", ())


def _at(node: Any, *path: str) -> Any:
    return None if node is None else node.find("/".join(W + name for name in path))


def _is_on(switch: Any) -> bool:
    return switch is not None and value_of(switch) not in ("0", "false", "off")


def _nearest(node: Any, name: str) -> Iterator[Any]:
    """The nearest descendants of this name, also those in content controls."""
    for child in node:
        if _name(child) == name:
            yield child
        elif _name(child) not in ("tbl", *_OMITTED):
            yield from _nearest(child, name)


def _name(node: Any) -> str:
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""
