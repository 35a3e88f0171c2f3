"""Parses thresholds and groups of the command line, `bm25=5` and `shop=2`, into those of a request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from chorale_client.request_options import GroupingOptions, ThresholdOptions


def parse_thresholds(given: Iterable[str]) -> ThresholdOptions | None:
    """`NAME=SCORE` with the name of a branch, `fused` or `rerank`; None without any.  Raises BadParameter."""
    thresholds: ThresholdOptions = {"min_branch_score": {}}
    texts = list(given)
    for text in texts:
        name, _, score = text.partition("=")
        try:
            value = float(score)
        except ValueError:
            raise typer.BadParameter(
                f"{text!r} is not NAME=SCORE: a branch, `fused` or `rerank`, and a number",
                param_hint="--threshold",
            ) from None
        if name == "fused":
            thresholds["min_fused_score"] = value
        elif name == "rerank":
            thresholds["min_rerank_score"] = value
        else:
            thresholds["min_branch_score"][name] = value
    return thresholds if texts else None


def parse_group(text: str) -> GroupingOptions:
    """`FIELD`, or `FIELD=N` for N hits of each group."""
    field, equals, size = text.rpartition("=")
    return {"field": field, "size": int(size)} if equals and size.isdecimal() else {"field": text}
