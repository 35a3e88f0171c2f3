"""What a scene of the demo says, worked out from its answer: no caption is written before the answer is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cli.terminal import counted

if TYPE_CHECKING:
    from chorale_client import Answer


def comparison(ranks: Mapping[str, int | None], fused: int | None) -> str:
    """Who puts the right text first; `ranks` has its rank by branch, None where it is not found."""
    first = [name for name, rank in ranks.items() if rank == 1]
    others = [name for name, rank in ranks.items() if rank != 1]
    if not first:
        where = "in no search alone"
    elif not others:
        where = "in every search"
    else:
        where = f"in {' and '.join(first)}, not in {' and '.join(others)}"
    return f"The right text comes first {where}; in the fusion it {'comes' if fused == 1 else 'does not come'} first."


def unanswered(answer: Answer, cosine_before: float) -> str:
    """How little was found; `cosine_before` is the highest cosine of an earlier answer."""
    count = sum("bm25" in hit.branches for hit in answer.hits)
    words = f"bm25 finds words of it in {counted(count, 'text')}" if count else "bm25 finds no word of it"
    return f"{words}; the highest cosine is {best_cosine(answer):.2f}, and was {cosine_before:.2f} before."


def best_cosine(answer: Answer) -> float:
    """The highest score of the branch `vector`, 0 without one."""
    scores = [hit.branches["vector"].score for hit in answer.hits if "vector" in hit.branches]
    return max((score for score in scores if score is not None), default=0.0)


def without_worker(answer: Answer, complete: Answer, timeout_s: float) -> str:
    """An answer while a worker hung, beside the complete answer."""
    came = f"answered after {answer.took_ms:,.0f} ms, with a limit of {timeout_s * 1000:,.0f} ms"
    before, now = ([hit.document_id for hit in each.hits[:1]] for each in (complete, answer))
    return (
        f"{came}; its first text is {'the same as' if now == before else 'not'} that of the complete answer."
    )
