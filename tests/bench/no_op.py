"""A kind of branch that does no work, so that a request's time is that of the chord alone."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from models.declarations.extensions import BranchKind, Kinds
from models.hits import Hit, Ranking
from tasks.branches.branch_task import BranchTask
from tasks.wiring.pipeline import BUILT_IN

PIPELINE_FILE = Path(__file__).with_name("latency.toml")
HITS = 100
"""The default depth of a request; the hits cross Redis as those of real branches do."""


def search_nothing(part: BranchTask) -> list[Ranking]:
    return [_fixed(part.branch.name)] * len(part.questions)


@lru_cache
def _fixed(branch: str) -> Ranking:
    # Branches share two thirds of their hits, as real ones do.
    first = 33 * (ord(branch[-1]) - ord("a"))
    return Ranking(
        tuple(Hit(f"document-{n}#0", f"document-{n}", 1 / (n + 1)) for n in range(first, first + HITS))
    )


KINDS = BUILT_IN | Kinds(branches={"noop": BranchKind(search_nothing, can_batch=True)})
"""The kinds of the measured installation."""
