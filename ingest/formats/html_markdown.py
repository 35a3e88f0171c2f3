"""The tags of an HTML page as Markdown, with the words as a person reads them."""

from __future__ import annotations

import re
from collections import deque

from bs4 import Tag
from markdownify import MarkdownConverter

from ingest.headings import escaped_line

_ROWS, _CELLS, _ROW_GROUPS = {"tr"}, {"td", "th"}, {"thead", "tbody", "tfoot"}
_BLOCKS = re.compile(
    "address|aside|body|center|details|dialog|dir|fieldset|figure|footer|form|header|hgroup|html|legend|listing|main|menu|"
    "nav|optgroup|option|plaintext|search|select|summary|xmp"
)
"""Tags that browsers show as blocks and markdownify does not know; each option stands on its line, as in an open list."""
_APART = re.compile("button|input|label|meter|output|progress|textarea|.*-.*")
"""Tags within a line that stand apart from their neighbours; a name with a hyphen is the page's own."""
_VALUES = "input[value]:not([type=hidden], [type=checkbox], [type=radio], [type=password], [type=image])"

_LAYOUT = (
    "table:has(table), table[role=presentation], table:not(:has(th)):has(:is(h1, h2, h3, h4, h5, h6):not(caption *)), "
    "table:not(:has(th, td:nth-child(2)))"
)
"""Tables that only place parts of the page: with a table or a heading in a cell, or with one column that has no name."""
_TABLE_PARTS = ["caption", *_ROW_GROUPS, *_ROWS, *_CELLS]
_MOST_SPAN = 1_000
"""The largest `colspan` of HTML."""
_MOST_REPEATED = 10_000
"""At most this many cells are repeated for the spans of a page; the other spans count as one."""
_REPEATED_CHARACTERS = 200
"""A longer cell is no name or value of several rows, and stands in the first one only."""
_SUPERSCRIPTS = dict(zip(map(ord, "0123456789+-−"), "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻", strict=True))

_OURS = "\ufdd0"
"""Stands in each line whose marks are ours and not the page's: a character that no text may have."""


class _Converter(MarkdownConverter):
    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: N802
        if "_inline" in parent_tags or not text.strip():
            return f" {text} "
        return f"\n\n{_OURS}{'#' * n} {' '.join(text.split())}\n\n"

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        if "_inline" in parent_tags or not text.strip():
            return f" {text} "
        longest = max(map(len, re.findall("`+", text)), default=0)
        fence = "`" * max(3, longest + 1)
        lines = [fence, *text.strip("\n").split("\n"), fence]
        return "\n\n" + "\n".join(_OURS + line for line in lines) + "\n\n"

    def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        line = " ".join(text.split("\n"))
        if el.find_previous_sibling() is not None:
            return f"|{line}\n"  # the library writes the same, after it has searched the whole head for each of its rows
        return str(super().convert_tr(el, line, parent_tags))  # type: ignore[misc]  # the stubs lack it

    def convert_hr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return "\n\n"

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        if _OURS in el.attrs:
            # markdownify counts the items before each item.
            alone = Tag(name="ol", attrs={"start": str(el[_OURS])})
            alone.append(el := Tag(name="li"))
        return str(super().convert_li(el, text, parent_tags))  # type: ignore[misc]  # the stubs lack it

    def convert_sup(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return text.translate(_SUPERSCRIPTS) if text and {*map(ord, text)} <= _SUPERSCRIPTS.keys() else text


_CONVERTER = _Converter(
    bullets="-",
    escape_asterisks=False,
    escape_underscores=False,
    strip=["a", "b", "del", "em", "i", "img", "s", "strong"],
)
"""No `**` for bold text: a bold letter would cut its word."""


def markdown(page: Tag) -> str:
    """The page's text; what reads as a mark of Markdown in it is escaped.  Changes the page."""
    for text in page.find_all(string=lambda text: text and _OURS in text):
        text.replace_with(text.replace(_OURS, ""))
    for formula in page.find_all("math"):
        source = formula.find("annotation", encoding="application/x-tex")
        formula.replace_with(
            f" {source.get_text() if source else formula.get('alttext') or formula.get_text(' ')} "
        )
    for field in page.select(_VALUES):
        field.append(str(field["value"]))
    for group in page.select("optgroup[label]"):
        group.insert(0, str(group["label"]) + "\n")
    for tag in page.find_all(True):
        if _BLOCKS.fullmatch(tag.name):
            tag.name = "div"
        elif _APART.fullmatch(tag.name):
            tag.insert_before(" ")
            tag.insert_after(" ")
    for table in page.select(_LAYOUT):
        for part in [part for part in table.find_all(_TABLE_PARTS) if part.find_parent("table") is table]:
            part.name = "div"
        table.name = "div"
    for cell in page.select(":is(table, thead, tbody, tfoot) > :is(td, th)"):
        before = cell.find_previous_sibling()
        if before is not None and _OURS in before.attrs:
            before.append(cell)
        else:
            cell.wrap(Tag(name="tr", attrs={_OURS: ""}))
    budget = _MOST_REPEATED
    for table in page.find_all("table"):
        budget = _repeat_spanning_cells(table, budget)
    for group in page.find_all(["tbody", "tfoot"]):
        if group.find_previous_sibling() is not None:
            group.unwrap()  # markdownify looks through the whole table for each group
    for numbered in page.find_all("ol"):
        items = numbered.find_all("li", recursive=False)
        for number, item in enumerate(items, _number(numbered, "start")):
            item[_OURS] = str(number)
    for part in page.find_all(["tr", "table"]):
        if not part.decomposed and not part.get_text(strip=True):
            part.decompose()
    lines = _CONVERTER.convert_soup(page).split("\n")
    escaped = (line.replace(_OURS, "") if _OURS in line else escaped_line(line) for line in lines)
    return "\n".join(escaped).strip()


def _repeat_spanning_cells(table: Tag, budget: int) -> int:
    """Give each row the cells that reach into it, so that every cell stands below the name of its column.

    At most `budget` cells are added.  Returns how many of these were not needed.
    """
    reaching: dict[int, tuple[str, int]] = {}
    group = None
    for row in [row for row in table.find_all("tr") if row.find_parent("table") is table]:
        if row.parent is not group:
            group, reaching = row.parent, {}
        own = deque(row.find_all(["td", "th"], recursive=False))
        is_heading = len(own) == 1 and not reaching
        from_above, reaching = reaching, {}
        column, last = 0, max(from_above, default=-1)
        while own or column <= last:
            if own and column not in from_above:
                cell = own.popleft()
                width = 1 if is_heading else min(_span(cell, "colspan"), 1 + max(budget, 0))
                budget -= width - 1
                text, rows = " ".join(cell.get_text(" ").split()), _span(cell, "rowspan") - 1
                text = text if len(text) <= _REPEATED_CHARACTERS else ""
                cell.attrs = {}
                if width > 1:
                    row.insert(row.index(cell) + 1, *(_cell(text, cell.name) for _ in range(1, width)))
            else:
                text, rows = from_above.get(column, ("", 1))
                added, width, rows, budget = _cell(text), 1, rows - 1, budget - 1
                own[0].insert_before(added) if own else row.append(added)
            if rows and budget > 0:
                reaching |= dict.fromkeys(range(column, column + width), (text, rows))
            column += width
    return max(budget, 0)


def _span(cell: Tag, name: str) -> int:
    return min(_number(cell, name), _MOST_SPAN) or 1


def _number(tag: Tag, name: str) -> int:
    value = str(tag.get(name, ""))
    return int(value) if value.isdecimal() and len(value) < 10 else 1


def _cell(text: str, name: str = "td") -> Tag:
    cell = Tag(name=name)
    cell.string = text
    return cell
