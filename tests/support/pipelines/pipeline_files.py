"""Texts of pipeline files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from config.declarations import Pipeline
from config.pipeline_reader import DEFAULT_FILE
from tasks.wiring.pipeline import load_pipeline

Declares = Callable[[str], Pipeline]

LOCAL = '[stores.local]\nkind = "embedded"\n'


def branch(name: str, group: str = "lexical", *, kind: str = "", store: str = "local", more: str = "") -> str:
    """A branch, of the kind of its name by default; `more` are further lines."""
    return f'[branches.{name}]\nkind = "{kind or name}"\ngroup = "{group}"\nstore = "{store}"\n{more}\n'


def declared(folder: Path, text: str, name: str = "pipeline.toml") -> Pipeline:
    """The text as a file of this folder, and loaded."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return load_pipeline(file)


PATIENT = re.sub(
    r"(?m)^\[configurations\..*$", "\\g<0>\ntimeout_s = 20", DEFAULT_FILE.read_text(encoding="utf-8")
)
"""The built-in pipeline, whose requests may take longer by default than a busy machine stands still."""

BM25_ALONE = LOCAL + branch("bm25")

INTERLEAVED = f"""{DEFAULT_FILE.read_text(encoding="utf-8")}
[interleaving]
a = "rrf"
b = "scores"
share = 1
"""
"""All plain requests under `rrf` share their page with `scores`."""
