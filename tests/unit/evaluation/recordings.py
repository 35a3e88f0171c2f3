"""Recorded branch lists by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from evaluation.branch_lists import BranchLists, Recording
from models.hits import Hit, Ranking

NOW = "2026-01-01T00:00:00+00:00"


def ranking(ids: Sequence[str], **more: str) -> Ranking:
    """Scores fall evenly from .9."""
    return Ranking(tuple(Hit(id_, id_, 0.9 - 0.01 * place, **more) for place, id_ in enumerate(ids)))


def recording(questions: Sequence[tuple[str, Mapping[str, Sequence[str]]]]) -> Recording:
    """Of each question the text, and the ids that each branch found."""
    lists = [
        BranchLists(f"q{at}", text, {name: ranking(ids) for name, ids in found.items()}, {})
        for at, (text, found) in enumerate(questions)
    ]
    return Recording(lists, NOW)


def contested(rng: random.Random, right: str, believes: str) -> dict[str, list[str]]:
    """Two branches find the same two documents: `believes` has `right` first, and the other branch has it last.

    With equal weights both documents have the same score, and chance decides by their ids.
    """
    ids = [f"x{rng.randrange(10**6)}" for _ in range(6)]
    wrong = f"{rng.choice('az')} {right}"
    orders = {believes: [right, *ids[:3], wrong], _OTHER[believes]: [wrong, *ids[3:], right]}
    return dict(sorted(orders.items()))


_OTHER = {"bm25": "vector", "vector": "bm25"}
