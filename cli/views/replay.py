"""A replayed request on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.terminal import Text
from cli.views.audit import UNKEPT
from cli.views.movements import movements_table

if TYPE_CHECKING:
    from rich.table import Table

    from evaluation.replay import Replay, ReplayedQuestion


def replay_parts(found: Replay) -> Iterator[Table | Text | str]:
    """What the console prints: what was replayed, each question with its hits, and what the audit rows lack."""
    change = found.was if found.was == found.now else f"{found.was} → {found.now}"
    yield f"{found.request_id}  {change}"
    for question in found.questions:
        yield ""
        yield Text.assemble(
            (UNKEPT if question.text is None else question.text, "bold"), ("  " + _said(question), "dim")
        )
        if question.moved:
            yield movements_table(question.moved)
    for gap in found.gaps:
        yield Text(f"not in the rows: {gap.what}: {gap.why}", "yellow")


def _said(question: ReplayedQuestion) -> str:
    if question.is_equal is None:
        return "nothing to compare with the recorded answer"
    return "as recorded" if question.is_equal else "DIFFERS from the recorded answer"
