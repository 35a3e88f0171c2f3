"""What the commands that measure rankings have in common on a terminal: means, gains, and documents that moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cli.terminal import Text, plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from evaluation.judged.metrics import Gain
    from evaluation.judged.movements import Movement, Place


def measures_table(title: str, rows: Mapping[str, Mapping[str, float]]) -> Table:
    """A row for each ranking, with the mean of each measure."""
    measures = next(iter(rows.values()))
    table = plain_table(title, *(f">{measure}" for measure in measures))
    for name, means in rows.items():
        table.add_row(name, *(f"{means[measure]:.4f}" for measure in measures))
    return table


def interval(gain: Gain) -> str:
    """The mean gain with the 95 % interval and the p-value."""
    return f"{gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}], p {gain.p:.3f}"


def movements_table(moved: Sequence[Movement], marks: Sequence[str] = ()) -> Table:
    """A row for each document: its rank before and now, and for each branch its rank and contribution before and now.

    `marks` are shown beside the documents.
    """
    branches = sorted(
        {
            name
            for movement in moved
            for place in (movement.before, movement.after)
            if place
            for name in place.branches
        }
    )
    table = plain_table(">was", ">now", "document", *([""] if marks else ()), *branches)
    for at, movement in enumerate(moved):
        table.add_row(
            _rank(movement.before),
            Text(_rank(movement.after), "bold"),
            movement.document_id,
            *([Text(marks[at], "green")] if marks else ()),
            *(_part(movement.before, movement.after, name) for name in branches),
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
