"""Where documents moved between two rankings, and which branches moved them, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.terminal import Text, plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from evaluation.movements import Movement, Place


def movements_table(moved: Sequence[Movement], marks: Sequence[str] = ()) -> Table:
    """A row for each document: its rank before and now, and for each branch its rank and contribution before and now.

    `marks` are shown beside the documents.
    """
    branches = sorted(
        {name for one in moved for place in (one.before, one.after) if place for name in place.branches}
    )
    table = plain_table(">was", ">now", "document", *([""] if marks else ()), *branches)
    for at, one in enumerate(moved):
        table.add_row(
            _rank(one.before),
            Text(_rank(one.after), "bold"),
            one.document_id,
            *([Text(marks[at], "green")] if marks else ()),
            *(_part(one.before, one.after, name) for name in branches),
        )
    return table


def _rank(place: Place | None) -> str:
    return "-" if place is None else str(place.rank)


def _part(before: Place | None, after: Place | None, branch: str) -> str:
    """A branch's rank and contribution, before and now; a document that it only scored has no rank."""
    parts = [None if place is None else place.branches.get(branch) for place in (before, after)]
    ranks = ["-" if part is None else f"#{part.rank}" if part.rank else "scored" for part in parts]
    shares = ["" if part is None else f" {part.contribution:.4f}" for part in parts]
    was, now = (rank + share for rank, share in zip(ranks, shares, strict=True))
    if was == now:
        return was
    return f"{was} →{shares[1]}" if ranks[0] == ranks[1] else f"{was} → {now}"
