"""What a branch of each kind uses of its process: a worker loads that before its first request, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from config import extensions
from models.extensions import Need

NEEDS: Mapping[str, frozenset[Need]] = {
    "bm25": frozenset({"text"}),
    "vector": frozenset({"questions", "vectors"}),
    "hyde": frozenset({"questions", "passages", "text", "vectors"}),
    "hybrid": frozenset({"questions"}),
    "document": frozenset(),
    "http": frozenset(),
}
"""By kind of branch; a package's own kind says so itself (`models.extensions.BranchKind`)."""


def needs_of(kinds: Iterable[str]) -> frozenset[Need]:
    """Of all these kinds together."""
    outside = extensions.offered("branch kind")
    found: frozenset[Need] = frozenset()
    for kind in kinds:
        if kind in NEEDS:
            found |= NEEDS[kind]
        elif kind in outside:
            found |= extensions.load("branch kind", kind).needs
    return found
