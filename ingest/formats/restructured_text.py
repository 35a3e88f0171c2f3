"""reStructuredText as Markdown-like text, parsed by docutils, which is kept from opening other files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from docutils import nodes
from docutils.core import publish_doctree

from ingest.clean import read_text
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, Unreadable
from models.not_indexed import NotIndexed

OMITTED = (nodes.comment, nodes.substitution_definition, nodes.target, nodes.raw, nodes.meta, nodes.pending)

WITHOUT_TEXT = frozenset(
    {
        *(INCLUDING := ("include", "literalinclude", "raw", "csv-table", "automodule", "autoclass")),
        *("toctree", "contents", "index", "highlight"),
        *("module", "currentmodule", "py:module", "py:currentmodule", "image", "meta"),
        *("tabularcolumns", "sectionauthor", "codeauthor", "moduleauthor"),
    }
)
"""Directives that docutils does not run and that contain only names and options; they are dropped."""
_ARGUMENT_IS_NO_TEXT = ("only", "figure")

_ROLE = re.compile(r":[\w:+.-]+:`(?:([^`<]+?)\s*<[^`>]+>|[~!]?([^`]+))`")
_DIRECTIVE = re.compile(r"\.\.\s+([\w:+.-]+)::[ \t]*(.*)")
_DEFINITION = re.compile(r"\.\.|[\w:+.-]+::")
"""A substitution or target that docutils could not define."""
_FOR_SPHINX = re.compile(r"\A\s*(?::(?:orphan|tocdepth|nocomments|nosearch):.*(?:\n|\Z))+")
"""Fields at the beginning of a file that nobody sees on the page."""
_GRID_TABLE = re.compile(r"(?:^[ \t]*+[+|].*+\n?+)++", re.MULTILINE)
_MOST_STEPS = 50_000_000
"""Two seconds of work."""
_OPTION = re.compile(r"\s+:[\w-]+:.*")


def text_of(tree: nodes.document) -> str:
    """Headings (as `#`), paragraphs, lists, literal blocks and tables, with a blank line between blocks."""
    return "\n\n".join(block for block in _blocks(tree, 1) if block.strip())


def first_heading(tree: nodes.document) -> str:
    """The title of the first section as `text_of` shows it, without `#`; empty without sections."""
    titles = (title for title in tree.findall(nodes.title) if isinstance(title.parent, nodes.section))
    return next((_line(title) for title in titles), "")


def not_included(tree: nodes.document) -> list[str]:
    """The directives that would include another text, as `include x.txt`."""
    messages = tree.findall(nodes.system_message)
    sources = (literal.astext() for message in messages for literal in message.findall(nodes.literal_block))
    directives = filter(None, map(_DIRECTIVE.match, sources))
    return [f"{match[1]} {match[2]}".strip() for match in directives if match[1].lower() in INCLUDING]


def _blocks(parent: nodes.Element, level: int) -> list[str]:
    blocks: list[str] = []
    for node in parent.children:
        if isinstance(node, nodes.section):
            blocks += _blocks(node, level + 1)
        elif isinstance(node, nodes.title):
            blocks.append(f"{'#' * min(max(level - 1, 1), 6)} {_line(node)}")
        elif isinstance(node, nodes.system_message):
            blocks += map(_unknown, node.findall(nodes.literal_block))
        elif isinstance(node, OMITTED):
            pass
        elif isinstance(node, nodes.Text | nodes.Inline | nodes.TextElement):
            blocks.append(_code(node) if isinstance(node, nodes.literal_block) else _inline(node))
        elif isinstance(node, nodes.Element):
            shape = next((how for kind, how in _SHAPES if isinstance(node, kind)), None)
            blocks += [shape(node, level)] if shape else _blocks(node, level)
    return blocks


def _inline(node: nodes.Node) -> str:
    """The text without the markup of unknown roles and without docutils' messages about them."""
    return _ROLE.sub(lambda role: role[1] or role[2], node.astext())


def _line(node: nodes.Node) -> str:
    return " ".join(_inline(node).split())


def _code(node: nodes.Node) -> str:
    text = node.astext()
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text) or [""]))
    return f"{fence}\n{text}\n{fence}"


def _bullets(node: nodes.Element, level: int) -> str:
    return "\n".join(_item("- ", item, level) for item in node.children if isinstance(item, nodes.Element))


def _numbers(node: nodes.Element, level: int) -> str:
    items = [item for item in node.children if isinstance(item, nodes.Element)]
    return "\n".join(
        _item(f"{number}. ", item, level) for number, item in enumerate(items, node.get("start", 1))
    )


def _item(mark: str, item: nodes.Element, level: int) -> str:
    lines = "\n\n".join(_blocks(item, level)).split("\n")
    return mark + "\n".join([lines[0], *(" " * len(mark) + line if line else "" for line in lines[1:])])


def _term(node: nodes.Element, level: int) -> str:
    return "\n".join(_blocks(node, level))


def _field(node: nodes.Element, level: int) -> str:
    return ": ".join(part for part in (_line(child) for child in node.children) if part)


def _table(node: nodes.Element, level: int) -> str:
    rows = [" | ".join(map(_line, row.children)) for row in node.findall(nodes.row)]
    captions = [_line(title) for title in node.findall(nodes.title)]
    return "\n".join(captions + rows)


def _unknown(literal: nodes.literal_block) -> str:
    """The content of a directive that docutils does not know or may not run, or of a malformed table, as written."""
    source = literal.astext()
    first, *body = source.split("\n")
    directive = _DIRECTIVE.match(first)
    if directive is None:
        return "" if _DEFINITION.match(first) else _code(literal)
    if directive[1].lower() in WITHOUT_TEXT:
        return ""
    while body and _OPTION.fullmatch(body[0]):
        body.pop(0)
    margin = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    argument = "" if directive[1].lower() in _ARGUMENT_IS_NO_TEXT else directive[2]
    text = "\n".join([argument, *(line[margin:] for line in body)])
    return _ROLE.sub(lambda role: role[1] or role[2], text).strip()


_SHAPES: tuple[tuple[type[nodes.Element], Callable[[nodes.Element, int], str]], ...] = (
    (nodes.bullet_list, _bullets),
    (nodes.enumerated_list, _numbers),
    (nodes.definition_list_item, _term),
    (nodes.option_list_item, _field),
    (nodes.field, _field),
    (nodes.table, _table),
)


_SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "doctitle_xform": False,
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": False,
    "_disable_config": True,
    "syntax_highlight": "none",
    "smart_quotes": False,
}


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The title is the first heading, if there is one."""
    source = read_text(file, max_bytes=options.max_file_bytes)
    _check_tables(source)
    tree = publish_doctree(_FOR_SPHINX.sub("", source), settings_overrides=_SETTINGS)
    if names := not_included(tree):
        yield Fault(NotIndexed.DIRECTIVE, f"not included: {', '.join(names)}")
    yield Record(text_of(tree), first_heading(tree), markup="markdown")


def _check_tables(source: str) -> None:
    """Raises Unreadable for large grid tables, because docutils walks through all characters of a table for each of its columns."""
    tables = (table[0] for table in _GRID_TABLE.finditer(source))
    steps = sum(len(table) * max(line.count("+") for line in table.split("\n")) for table in tables)
    if steps > _MOST_STEPS:
        why = f"the columns times the characters of its grid tables are {steps:,}, of at most {_MOST_STEPS:,}"
        raise Unreadable(NotIndexed.OVER_LIMIT, f"{why}; write them as CSV")
