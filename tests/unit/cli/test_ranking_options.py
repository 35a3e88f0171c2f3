"""Thresholds and groups as they are written on the command line."""

from __future__ import annotations

import pytest
import typer

from cli.ranking_options import parse_group, parse_thresholds


def test_thresholds_are_of_branches_of_the_fusion_and_of_the_reranker() -> None:
    assert parse_thresholds(["bm25=5", "vector=.25", "fused=0.3", "rerank=1"]) == {
        "min_branch_score": {"bm25": 5.0, "vector": 0.25},
        "min_fused_score": 0.3,
        "min_rerank_score": 1.0,
    }
    assert parse_thresholds([]) is None


@pytest.mark.parametrize("text", ["bm25", "bm25=", "bm25=high", "0.3"])
def test_a_wrong_threshold_says_how_it_is_written(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not NAME=SCORE"):
        parse_thresholds([text])


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("shop", {"field": "shop"}),
        ("shop=2", {"field": "shop", "size": 2}),
        ("a=b", {"field": "a=b"}),
        ("a=b=3", {"field": "a=b", "size": 3}),
    ],
)
def test_a_group_has_a_field_and_perhaps_a_size(text: str, group: dict[str, object]) -> None:
    assert parse_group(text) == group
