"""HTML as Markdown: keeps headings, lists, tables and code; drops scripts, styles and link targets."""

from __future__ import annotations

from collections.abc import Iterator

from bs4 import BeautifulSoup, Comment, Tag
from bs4.element import Declaration, ProcessingInstruction
from markdownify import MarkdownConverter

from ingest.collection_rows import with_reserved
from ingest.decode import read_text
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record
from models.left_out import LeftOut

DROPPED = ("head", "script", "style", "template", "noscript", "svg", "iframe", "object")

# HTML may leave these tags open; html.parser then nests neighbours into each other.
_NESTED_BY_MISTAKE = "li > li, p > p, td > td, th > th, td > tr, tr > tr, dt > dd, dd > dt, dd > dd"

_UNSEEN = (Comment, Declaration, ProcessingInstruction)
"""Comments, `<![if IE]>` and `<?xml ...?>`."""

_CONVERTER = MarkdownConverter(
    heading_style="ATX",
    strip=["a", "img"],
    bullets="-",
    escape_asterisks=False,
    escape_underscores=False,
    escape_misc=False,
)


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The page declares language, canonical address and date of publication."""
    page = BeautifulSoup(read_text(file, max_bytes=options.max_file_bytes), "html.parser")
    heading = page.select_one("title:not(svg title)")
    title = heading.get_text(" ", strip=True) if heading else ""
    metadata, notes = with_reserved(_declared(page), {})
    for tag in page.find_all(DROPPED):
        tag.decompose()
    for unseen in page.find_all(string=lambda text: isinstance(text, _UNSEEN)):
        unseen.extract()
    for tag in page.select(_NESTED_BY_MISTAKE):
        if tag.parent is not None:
            tag.parent.insert_after(tag)
    text = _CONVERTER.convert_soup(page).strip()
    yield from (Fault(LeftOut.METADATA, note) for note in notes)
    yield Record(text, title, metadata, "markdown")


def _declared(page: BeautifulSoup) -> dict[str, str]:
    places = {
        "language": ("html[lang]", "lang"),
        "url": ('link[rel="canonical"][href]', "href"),
        "published_at": ('meta[property="article:published_time"][content]', "content"),
    }
    declared: dict[str, str] = {}
    for name, (selector, attribute) in places.items():
        tag = page.select_one(selector)
        if isinstance(tag, Tag) and isinstance(value := tag.get(attribute), str) and value.strip():
            declared[name] = value.strip()
    return declared
