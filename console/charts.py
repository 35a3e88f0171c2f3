"""Geometry of the pictures: where documents stand in each ranking, and when each branch worked.  Pure; lengths are units of SVG."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any

from chorale_client import answer

from evaluation.movements import RankedHit

COLUMN, ROW, TOP, LEFT = 130, 22, 34, 60
DEEPEST = 20
"""Later ranks are drawn in one row below."""
LANES_WIDTH = 600
MINUTE_WIDTH, MINUTES_HEIGHT = 5, 60


def rank_chart(
    columns: Sequence[str], documents: Mapping[str, Sequence[int | None]], titles: Mapping[str, str]
) -> dict[str, Any]:
    """A line for each document through its ranks; None: the ranking does not have it.

    `documents` gives a rank for each of `columns`.
    """
    known = [rank for ranks in documents.values() for rank in ranks if rank is not None]
    rows = min(max(known, default=1), DEEPEST + 1)
    lines = []
    for place, (document_id, ranks) in enumerate(documents.items()):
        dots = [
            {"x": LEFT + column * COLUMN, "y": TOP + (min(rank, DEEPEST + 1) - 1) * ROW, "rank": rank}
            for column, rank in enumerate(ranks)
            if rank is not None
        ]
        lines.append(
            {
                "document_id": document_id,
                "title": titles.get(document_id) or document_id,
                "series": place % 8,
                "dots": dots,
                "points": " ".join(f"{dot['x']},{dot['y']}" for dot in dots),
            }
        )
    heads = [{"x": LEFT + place * COLUMN, "name": name} for place, name in enumerate(columns)]
    label_x = LEFT + (len(columns) - 1) * COLUMN + 18
    return {
        "width": label_x + 260,
        "height": TOP + rows * ROW,
        "label_x": label_x,
        "columns": heads,
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


def lanes(
    stages: Sequence[Mapping[str, Any]], deadline_ms: float, *, hedged: Collection[str] = ()
) -> dict[str, Any]:
    """A bar for each stage with a start.  The bar of a stage in `hedged` shows its second message.  The deadline is drawn if the
    stages reach half of the way to it."""
    timed = [stage for stage in stages if stage.get("start_ms") is not None]
    last = max((stage["start_ms"] + stage.get("ms", 0.0) for stage in timed), default=0.0)
    is_near = last >= deadline_ms / 2
    scale = LANES_WIDTH / (1.05 * (max(last, deadline_ms) if is_near else last) or 1.0)
    rows = [
        {
            "stage": stage["stage"],
            "status": stage.get("status", "ok"),
            "is_hedge": stage["stage"] in hedged,
            "start_ms": stage["start_ms"],
            "ms": stage.get("ms", 0.0),
            "detail": stage.get("detail") or "",
            "x": round(stage["start_ms"] * scale, 2),
            "width": round(max(2.0, stage.get("ms", 0.0) * scale), 2),
        }
        for stage in timed
    ]
    return {
        "width": LANES_WIDTH,
        "deadline_ms": deadline_ms,
        "deadline_x": round(deadline_ms * scale, 2) if is_near else None,
        "rows": rows,
    }


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
