"""A folder of wiki pages (`*.txt`, the first line is the title) as a store of Chorale, and the other kinds of objects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chorale_wiki_source.folder import WikiFolder
from models.declarations.extensions import BranchKind, GeneratorKind, StoreKind
from models.hits import Ranking


def _open(name: str, options: Mapping[str, Any]) -> WikiFolder:
    return WikiFolder(name, Path(options["folder"]))


def _search_titles(part: Any) -> list[Ranking]:
    """The pages whose title stands in the question (`part` is a `tasks.branches.branch_task.BranchTask`)."""
    return [part.store.titled(question.text, depth=part.branch.depth) for question in part.questions]


class _Echo:
    """Turns the question into a statement; a language model would do this better."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._before = str(options.get("before", "It is known that"))

    def imagine(self, texts: Sequence[str], *, timeout_s: float) -> list[tuple[str, ...]]:
        return [(f"{self._before} {re.sub('[?]$', '.', text)}",) for text in texts]


STORE = StoreKind(_open, options={"folder": None})
TITLES = BranchKind(_search_titles, can_batch=True)
ECHO = GeneratorKind(_Echo)
