"""HTML as Markdown: keeps headings, lists, tables and code; drops scripts, styles, link targets and what frames the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.dammit import EncodingDetector

from ingest.clean import decoded, read_bytes
from ingest.collection_rows import with_reserved
from ingest.formats import html_markdown, html_visibility
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, Unreadable
from models.not_indexed import NotIndexed

_MAIN = "main, [role=main]"
_FRAME = (
    f":is(nav, [role=navigation], [role=search], :is(header, footer, aside, [role=banner], [role=contentinfo])"
    f":not(:is({_MAIN}, article, section) *)):not(:has(h1, article, {_MAIN}))"
)
"""Navigation, and the header, footer and sidebars of the page.  One with the page's heading or main part is none: a tag may be unclosed."""

_DEEPEST_TABLE = 30

_ENDS: dict[str, set[str]] = {
    **{name: {name} for name in ("li", "p", "option")},
    **{name: {"dt", "dd"} for name in ("dt", "dd")},
    "optgroup": {"option", "optgroup"},
    **{name: {"td", "th"} for name in ("td", "th")},
    "tr": {"td", "th", "tr"},
    **{name: {"td", "th", "tr", "thead", "tbody", "tfoot"} for name in ("thead", "tbody", "tfoot")},
}
"""The open tags that a tag ends, by its name: HTML may leave them open."""
_SPACES = re.compile(r"(?<![ \t])[ \t]{200,}+")

_HIDDEN_TEXT = "text that a person does not see; --hidden-text reads it"


def _bounded(source: str) -> str:
    """The source without what takes the libraries a time that grows with the square of its length.

    A comment or tag that never ends becomes text, as html.parser reads it.  A line has at most 200 spaces in a row.
    """
    for begin, end in (("<!--", r"--\s*>"), ("<![CDATA[", "]]>"), ("<", ">")):
        after = max((match.end() for match in re.finditer(end, source)), default=0)
        source = source[:after] + source[after:].replace(begin, f"&lt;{begin[1:]}")
    return _SPACES.sub(" " * 200, source)


class _Page(BeautifulSoup):
    """A page whose tags end their open neighbours.  html.parser would nest them, and the work of each further tag grows with the depth."""

    def handle_starttag(self, name: str, *args: Any, **kwargs: Any) -> Tag | None:
        while self.currentTag is not None and self.currentTag.name in _ENDS.get(name, ()):
            self.endData()
            self.popTag()
        return super().handle_starttag(name, *args, **kwargs)


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The page declares encoding, language, canonical address and date of publication."""
    raw = read_bytes(file, max_bytes=options.max_file_bytes)
    source = _bounded(decoded(raw, EncodingDetector.find_declared_encoding(raw, is_html=True) or "utf-8"))
    page = _Page(source, "html.parser")
    _check_tables(page)
    heading = page.select_one("title:not(svg title)")
    title = heading.get_text(" ", strip=True) if heading else ""
    metadata, notes = with_reserved(_declared(page), {})
    yield from (Fault(NotIndexed.METADATA, note) for note in notes)
    if html_visibility.leave_out(page, hidden_text=options.hidden_text):
        yield Fault(NotIndexed.HIDDEN_TEXT, _HIDDEN_TEXT)
    text = html_markdown.markdown(_main_part(page))
    if not text:
        whole = _Page(source, "html.parser")
        html_visibility.leave_out(whole, hidden_text=options.hidden_text)
        text = html_markdown.markdown(whole)
    yield Record(text, title, metadata, "markdown")


def _check_tables(page: BeautifulSoup) -> None:
    """Raises Unreadable if tables are nested too deeply, because a cell is read once for each table around it."""
    depths: dict[int, int] = {}
    for table in page.find_all("table"):
        outer = table.find_parent("table")
        depths[id(table)] = depth = 1 + (depths[id(outer)] if outer else 0)
        if depth > _DEEPEST_TABLE:
            raise Unreadable(
                NotIndexed.OVER_LIMIT, f"its tables are nested deeper than {_DEEPEST_TABLE} levels"
            )


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


def _declared(page: BeautifulSoup) -> dict[str, str]:
    places = {
        "language": (r"html:is([lang], [xml\:lang])", ("lang", "xml:lang")),
        "url": ('link[rel="canonical"][href]', ("href",)),
        "published_at": ('meta[property="article:published_time"][content]', ("content",)),
    }
    declared: dict[str, str] = {}
    for name, (selector, attributes) in places.items():
        tag = page.select_one(selector)
        values = [str(tag.get(attribute, "")).strip() for attribute in attributes] if tag else []
        if value := next(filter(None, values), ""):
            declared[name] = value
    return declared
