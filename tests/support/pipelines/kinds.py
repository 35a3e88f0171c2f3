"""Kinds of branches that a test adds to those of the product.

The test's own process passes `kinds_with("moody")` where the pipeline is read: it plans requests and searches nothing.  A
child process calls `declare(moody=search)` before anything else (`RunningPipeline(preload=...)`): from then on a package
with these branch kinds is installed in that process, so every command that the product has finds them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from config import extensions
from models.declarations.extensions import BranchKind, Kinds
from tasks.wiring.pipeline import BUILT_IN

DECLARED = SimpleNamespace()
"""The kinds by name; the entry points of the package name its attributes."""


def kinds_with(*names: str) -> Kinds:
    """Returns the built-in kinds, and branch kinds of these names that find nothing."""
    return BUILT_IN | Kinds(branches={name: BranchKind(lambda part: []) for name in names})


def declare(**searches: Callable[..., Any]) -> None:
    """Installs a package in this process with branch kinds of these names and search functions."""
    declare_kinds({kind: BranchKind(search) for kind, search in searches.items()})


def declare_kinds(branches: Mapping[str, BranchKind]) -> None:
    """Like `declare`, for whole kinds."""
    if not vars(DECLARED):
        sys.meta_path.append(_Finder())
    for name, kind in branches.items():
        setattr(DECLARED, name, kind)
    extensions.installed.cache_clear()
    extensions.offered.cache_clear()


class _Package(Distribution):
    def read_text(self, filename: str) -> str | None:
        points = [f"{kind} = {__name__}:DECLARED.{kind}" for kind in vars(DECLARED)]
        return {
            "METADATA": "Metadata-Version: 2.1\nName: kinds-of-tests\nVersion: 1.0\n",
            "entry_points.txt": "\n".join(["[chorale.branch_kinds]", *points]),
        }.get(filename)

    def locate_file(self, path: Any) -> Path:
        return Path(path)


class _Finder(DistributionFinder):
    def find_spec(self, *_: Any) -> None:
        return None

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        return [_Package()]
