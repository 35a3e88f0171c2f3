"""The best hits of each group, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client.request import Grouping

from fusion.fused_hits import FusedQuestion
from fusion.page import grouped, page_of
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, ids, plan, request, texts

ONE = plan((branch("bm25"),))
SIX = [
    hit(name, source_type=kind)
    for name, kind in zip("abcdef", ["law", "law", "faq", "law", None, None], strict=True)
]


def candidates(group_by: Any, hits: Any = SIX, **options: Any) -> FusedQuestion:
    return fuse_question(ONE, branch_results(bm25=hits), 0, request(group_by=group_by, **options))


@pytest.mark.parametrize(("size", "left", "removed"), [(1, "acef", 2), (2, "abcef", 1), (3, "abcdef", 0)])
def test_each_group_keeps_its_best_hits_and_hits_without_a_group_stay(
    size: int, left: str, removed: int
) -> None:
    grouping = Grouping(field="source_type", size=size)
    one = grouped(candidates(grouping, top_k=2), grouping, {})
    assert (ids(one), one.removed, one.warnings) == (list(left), {"group_by": removed}, ())
    # The page is filled from the other candidates.
    assert ids(page_of(one, request(group_by=grouping, top_k=2, offset=1), ONE)) == list(left[1:3])


def test_passages_are_grouped_by_their_document() -> None:
    passages = candidates("document", [hit("a"), hit("a", 1), hit("b"), hit("a", 2)], fuse_by="passage")
    left = grouped(passages, Grouping(field="document", size=2), {}).hits
    assert [one.passage_id for one in left] == ["a#0", "a#1", "b#0"]


@pytest.mark.parametrize("value", ["acme", 7, True, ["acme", "zenith"], {"name": "acme"}])
def test_any_value_of_the_metadata_makes_a_group(value: Any) -> None:
    known = {**texts("a", "b", customer=value), **texts("c", customer=None), **texts("d", customer="other")}
    assert ids(grouped(candidates("customer"), Grouping(field="customer"), known)) == [
        "a",
        "c",
        "d",
        "e",
        "f",
    ]


def test_a_field_that_no_hit_has_is_named() -> None:
    one = grouped(candidates("costumer"), Grouping(field="costumer"), {})
    assert (len(one.hits), one.warnings) == (6, ("group_by: no hit has the field 'costumer'",))
