"""reStructuredText as Markdown-like text, parsed by docutils, which is kept from opening other files."""

from __future__ import annotations

from collections.abc import Iterator

from docutils.core import publish_doctree

from ingest.decode import read_text
from ingest.formats.docutils_tree import first_heading, not_included, text_of
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record
from models.left_out import LeftOut

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
    tree = publish_doctree(source, settings_overrides=_SETTINGS)
    if names := not_included(tree):
        yield Fault(LeftOut.DIRECTIVE, f"not included: {', '.join(names)}")
    yield Record(text_of(tree), first_heading(tree), markup="markdown")
