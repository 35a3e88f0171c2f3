"""HTML as Markdown: keeps headings, lists, tables and code; drops scripts, styles, link targets and what frames the page."""

from __future__ import annotations

from collections.abc import Iterator

from bs4 import BeautifulSoup, Comment, Tag
from bs4.element import Declaration, ProcessingInstruction
from markdownify import MarkdownConverter

from ingest.clean import read_text
from ingest.collection_rows import with_reserved
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record
from models.not_indexed import NotIndexed

DROPPED = ("head", "title", "script", "style", "template", "noscript", "svg", "iframe", "object")

# HTML may leave these tags open; html.parser then nests neighbours into each other.
_NESTED_BY_MISTAKE = "li > li, p > p, td > td, th > th, td > tr, tr > tr, dt > dd, dd > dt, dd > dd"

_MAIN = "main, [role=main]"
_FRAME = (
    f":is(nav, [role=navigation], [role=search], :is(header, footer, aside, [role=banner], [role=contentinfo])"
    f":not(:is({_MAIN}, article, section) *)):not(:has(h1, article, {_MAIN}))"
)
"""Navigation, and the header, footer and sidebars of the page.  One with the page's heading or main part is none: a tag may be unclosed."""

_UNSEEN = (Comment, Declaration, ProcessingInstruction)
"""Comments, `<![if IE]>` and `<?xml ...?>`."""

_PARTS = ("aside", "footer", "header", "main", "nav")
"""Tags that stand on lines of their own, which markdownify does not know."""

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
    source = read_text(file, max_bytes=options.max_file_bytes)
    page = BeautifulSoup(source, "html.parser")
    heading = page.select_one("title:not(svg title)")
    title = heading.get_text(" ", strip=True) if heading else ""
    metadata, notes = with_reserved(_declared(page), {})
    _drop_unseen(page)
    text = _markdown(_main_part(page))
    if not text:
        _drop_unseen(whole := BeautifulSoup(source, "html.parser"))
        text = _markdown(whole)
    yield from (Fault(NotIndexed.METADATA, note) for note in notes)
    yield Record(text, title, metadata, "markdown")


def _drop_unseen(page: BeautifulSoup) -> None:
    for tag in [*page.find_all(DROPPED), *page.select("a.headerlink")]:
        tag.decompose()
    for unseen in page.find_all(string=lambda text: isinstance(text, _UNSEEN)):
        unseen.extract()


def _main_part(page: BeautifulSoup) -> Tag:
    """The only main part that has a text, below the page's first heading; else the page without its frame."""
    for tag in page.select(_FRAME):
        tag.decompose()
    parts = [part for part in page.select(_MAIN) if part.get_text(strip=True)]
    if len(parts) != 1:
        return page
    if page.h1 and not parts[0].h1:
        parts[0].insert(0, page.h1)
    return parts[0]


def _markdown(page: Tag) -> str:
    for part in page.find_all(_PARTS):
        part.name = "div"
    for tag in page.select(_NESTED_BY_MISTAKE):
        if tag.parent is not None:
            tag.parent.insert_after(tag)
    return _CONVERTER.convert_soup(page).strip()


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
