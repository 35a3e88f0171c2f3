"""Geometry of the pictures: where documents stand in each ranking, and when each branch worked.  Pure; lengths are units of SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from chorale_client import answer
from chorale_client.wire_names import Stage

from evaluation.judged.movements import RankedHit

COLUMN, ROW, TOP, LEFT = 130, 20, 30, 60
DEEPEST = 8
"""Later ranks are drawn in one row below."""
MOST_LINES = 8
"""With so many lines the picture takes less than a third of the first screen."""
LANES_WIDTH = 600
_SEARCH = f"{Stage.SEARCH}."
MINUTE_WIDTH, MINUTES_HEIGHT = 5, 60


def rank_chart(
    fused: Sequence[RankedHit],
    branches: Sequence[str],
    titles: Mapping[str, str | None],
    answered: Mapping[str, int] | None = None,
) -> dict[str, Any] | None:
    """A line for each of the first hits, through its rank in each branch, after the fusion, and in the answer if `answered` has
    these ranks; None without hits."""
    if not fused:
        return None
    columns = [*branches, "fused", *(["answer"] if answered is not None else [])]
    lines, deepest = [], 1
    for place, hit in enumerate(fused[:MOST_LINES]):
        ranks = [*((hit.branches[name].rank or None) if name in hit.branches else None for name in branches)]
        ranks += [place + 1, *([answered.get(hit.document_id)] if answered is not None else [])]
        deepest = max(deepest, *(rank for rank in ranks if rank is not None))
        dots = [
            {
                "x": LEFT + column * COLUMN,
                "y": TOP + (min(rank, DEEPEST + 1) - 1) * ROW,
                "rank": rank if rank <= DEEPEST else f">{DEEPEST}",
            }
            for column, rank in enumerate(ranks)
            if rank is not None
        ]
        lines.append(
            {
                "document_id": hit.document_id,
                "title": titles.get(hit.document_id) or hit.document_id,
                "series": place % 8,
                "dots": dots,
                "points": " ".join(f"{dot['x']},{dot['y']}" for dot in dots),
            }
        )
    label_x = LEFT + (len(columns) - 1) * COLUMN + 18
    return {
        "width": label_x + 260,
        "height": TOP + min(deepest, DEEPEST + 1) * ROW,
        "label_x": label_x,
        "columns": [{"x": LEFT + place * COLUMN, "name": name} for place, name in enumerate(columns)],
        "lines": lines,
    }


def score_bars(hits: Sequence[RankedHit], branches: Sequence[str]) -> list[list[dict[str, Any]]]:
    """For each hit a bar for each branch; the widths of a hit's bars add up to its fused score, the best score being 100.

    A boost multiplies what each branch gives.
    """
    scores = [fused_score(hit) for hit in hits]
    best = max(scores, default=0.0) or 1.0
    rows = []
    for hit in hits:
        factor, at = prod(hit.boosts.values()), 0.0
        row = []
        for series, name in enumerate(branches):
            if (part := hit.branches.get(name)) is not None:
                width = max(0.0, part.contribution * factor) / best * 100
                row.append(
                    {
                        "branch": name,
                        "series": series % 8,
                        "rank": part.rank,
                        "score": part.score,
                        "contribution": part.contribution * factor,
                        "x": round(at, 3),
                        "width": round(width, 3),
                    }
                )
                at += width
        rows.append(row)
    return rows


def fused_score(hit: RankedHit) -> float:
    """The score before reranking."""
    if isinstance(hit, answer.Hit) and hit.rerank is not None and hit.rerank.fused_score is not None:
        return hit.rerank.fused_score
    return hit.score


def lanes(stages: Sequence[Mapping[str, Any]], deadline_ms: float) -> dict[str, Any]:
    """A bar for each stage whose time is known.  A branch without an answer has one until the waiting ended, from the beginning if
    no worker began it; one that was sent again also has its first run.  The deadline is drawn if the stages reach half of the
    way to it."""
    begun = [(stage, _begun_ms(stage)) for stage in stages]
    timed = [(stage, begun_ms) for stage, begun_ms in begun if begun_ms is not None]
    after = (begun_ms for stage, begun_ms in timed if not stage["stage"].startswith(_SEARCH))
    last = max((begun_ms + stage.get("ms", 0.0) for stage, begun_ms in timed), default=0.0)
    waited_ms = min(after, default=last)
    is_near = last >= deadline_ms / 2
    scale = LANES_WIDTH / (1.05 * (max(last, deadline_ms) if is_near else last) or 1.0)

    def place(begun_ms: float, ms: float) -> dict[str, float]:
        return {"x": round(begun_ms * scale, 2), "width": round(max(2.0, ms * scale), 2)}

    rows = []
    for stage, known_ms in begun:
        is_missing = stage["stage"].startswith(_SEARCH) and stage.get("status") == "failed"
        if known_ms is None and not is_missing:
            continue
        begun_ms = known_ms or 0.0
        has_answered = stage.get("start_ms") is not None
        ms = stage.get("ms", 0.0) if has_answered else max(0.0, waited_ms - begun_ms)
        first_ms, again_ms = stage.get("first_start_ms"), stage.get("sent_again_ms")
        first = None
        if has_answered and first_ms is not None and first_ms < begun_ms:
            first = place(first_ms, begun_ms + ms - first_ms)
        rows.append(
            {
                "stage": stage["stage"],
                "status": stage.get("status", "ok"),
                "has_begun": known_ms is not None,
                "has_answered": has_answered,
                "start_ms": begun_ms,
                "ms": ms,
                "detail": stage.get("detail") or "",
                **place(begun_ms, ms),
                "first": first,
                "sent_again_ms": again_ms,
                "again_x": None if again_ms is None else round(again_ms * scale, 2),
            }
        )
    return {
        "width": LANES_WIDTH,
        "deadline_ms": deadline_ms,
        "deadline_x": round(deadline_ms * scale, 2) if is_near else None,
        "waited_ms": None if all(row["has_answered"] for row in rows) else waited_ms,
        "rows": rows,
    }


def _begun_ms(stage: Mapping[str, Any]) -> float | None:
    """When the stage began.  A branch that did not answer has the moment when a worker began it, or when it was sent again."""
    moments = (stage.get(name) for name in ("start_ms", "first_start_ms", "sent_again_ms"))
    return next((at_ms for at_ms in moments if at_ms is not None), None)


def minute_bars(values: Sequence[float | None]) -> dict[str, Any]:
    """A bar for each minute, the highest as high as the picture; None: there is no value, and no bar."""
    most = max((value for value in values if value is not None), default=0.0)
    bars = []
    for place, value in enumerate(values):
        if value is not None:
            height = round(MINUTES_HEIGHT * value / (most or 1.0), 2)
            x = place * MINUTE_WIDTH
            bars.append({"x": x, "y": MINUTES_HEIGHT - height, "height": height, "value": value})
    return {"width": MINUTE_WIDTH * len(values), "height": MINUTES_HEIGHT, "most": most, "bars": bars}
