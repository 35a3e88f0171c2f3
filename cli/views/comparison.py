"""The comparison of two rankings on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.terminal import Text, plain_table
from cli.views.movements import movements_table

if TYPE_CHECKING:
    from rich.table import Table

    from evaluation.comparison import Comparison, Mover


def compared_parts(found: Comparison) -> Iterator[Table | Text | str]:
    """What the console prints: the means, the paired test, and the questions that differ most."""
    (a, b), gain = found.names, found.gain
    table = plain_table("", *(f">{name}" for name in found.means))
    for at, name in enumerate(found.names):
        table.add_row(f"{'AB'[at]}  {name}", *(f"{pair[at]:.4f}" for pair in found.means.values()))
    yield f"{found.collection}: {gain.questions:,} judged questions\n"
    yield table
    verdict = "not distinguishable"
    if gain.is_distinguishable:
        verdict = f"{b if gain.mean > 0 else a} is better"
    yield (
        f"\n{found.measure}, B - A: {gain.mean:+.4f} (95 %: {gain.low:+.4f} to {gain.high:+.4f}, p {gain.p:.4f}): {verdict}"
    )
    yield f"B wins {gain.wins:,}, loses {gain.losses:,}, ties {found.ties:,}"
    for mover in found.movers:
        yield ""
        yield from _mover_parts(mover)


def _mover_parts(mover: Mover) -> Iterator[Table | Text]:
    before, after = mover.values
    yield Text.assemble(
        (f"{before:.3f} → {after:.3f}  ", "green" if after > before else "red"),
        (mover.text, "bold"),
        (f"  {mover.question_id}", "dim"),
    )
    marks = [
        f"relevant ({grade})" if (grade := mover.grades.get(one.document_id, 0)) > 0 else ""
        for one in mover.moved
    ]
    yield movements_table(mover.moved, marks)
