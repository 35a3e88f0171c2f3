"""Texts of pipeline files."""

from __future__ import annotations

from config.pipeline_reader import DEFAULT_FILE

LOCAL = '[stores.local]\nkind = "embedded"\n'


def branch(name: str, group: str = "lexical", *, kind: str = "", store: str = "local", more: str = "") -> str:
    """A branch, of the kind of its name by default; `more` are further lines."""
    return f'[branches.{name}]\nkind = "{kind or name}"\ngroup = "{group}"\nstore = "{store}"\n{more}\n'


BM25_ALONE = LOCAL + branch("bm25")

INTERLEAVED = f"""{DEFAULT_FILE.read_text(encoding="utf-8")}
[interleaving]
a = "rrf"
b = "scores"
share = 1
"""
"""All plain requests under `rrf` share their page with `scores`."""
