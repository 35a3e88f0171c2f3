"""Texts of pipeline files."""

from __future__ import annotations

LOCAL = '[stores.local]\nkind = "embedded"\n'


def branch(name: str, group: str = "lexical", *, kind: str = "", store: str = "local", more: str = "") -> str:
    """A branch, of the kind of its name by default; `more` are further lines."""
    return f'[branches.{name}]\nkind = "{kind or name}"\ngroup = "{group}"\nstore = "{store}"\n{more}\n'


BM25_ALONE = LOCAL + branch("bm25")
