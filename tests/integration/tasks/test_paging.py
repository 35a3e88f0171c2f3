"""Pages of one ranking fit together: each hit is on one of them, whatever the size of the pages."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client.answer import Answer

from fusion.methods import METHODS
from tests.integration.tasks.answers import ids
from tests.support.pipelines.one_process import OneProcess

THINGS = ("lamp", "chair", "table", "shelf")
COLOURS = ("red", "blue", "green", "white", "black")
LAMPS = {
    f"room{number}": (
        f"Room {number}",
        f"Room {number} has a {COLOURS[number % 5]} {THINGS[number % 4]}. " + "It is new. " * (number % 7),
    )
    for number in range(100)
}


@pytest.fixture(scope="module", autouse=True)
def _lamps(here: OneProcess) -> None:
    here.index(LAMPS, namespace="lamps")


def pages(here: OneProcess, size: int, *, until: int = 60, **options: Any) -> list[Answer]:
    options = {"namespace": "lamps", "include": ["ids"], "depth": 60, **options}
    return [
        here.ask("which room has a new red lamp", top_k=size, offset=offset, **options)
        for offset in range(0, until, size)
    ]


def together(answers: list[Answer]) -> list[str]:
    return [name for answer in answers for name in ids(answer)]


def test_each_hit_is_on_one_page_and_their_order_is_that_of_one_long_page(here: OneProcess) -> None:
    [whole] = pages(here, 60)
    assert len(set(ids(whole))) == 60
    for size in (5, 12, 30):
        paged = pages(here, size)
        assert together(paged) == ids(whole)
        assert {answer.questions[0].total_matches for answer in paged} == {whole.questions[0].total_matches}
        assert not any(answer.warnings for answer in paged)


@pytest.mark.parametrize("method", [method.name for method in METHODS])
def test_each_hit_is_on_one_page_with_every_method(here: OneProcess, method: str) -> None:
    assert len(set(together(pages(here, 30, fusion=method)))) == 60


@pytest.mark.parametrize(
    "options",
    [
        {"fuse_by": "passage"},
        {"diversity": 0.4},
        {"group_by": {"field": "title", "size": 1}},
        {"boosts": "off"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_each_hit_is_on_one_page_whatever_chooses_the_hits(here: OneProcess, options: dict[str, Any]) -> None:
    assert together(pages(here, 20, **options)) == together(pages(here, 60, **options))


def test_the_page_on_which_the_hits_end_says_how_to_get_more(here: OneProcess) -> None:
    first, last = pages(here, 20, until=40, depth=25, branches=["bm25"])
    assert (len(first.hits), first.warnings) == (20, ())
    warned = (
        "depth: the 25 hits of this depth end here, and the branches have more; the same larger `depth` on "
        "every page shows them"
    )
    assert (len(last.hits), last.warnings) == (5, (warned,))
    # Every document is among the hits, so no depth shows more.
    [answer] = pages(here, 200, until=1, depth=100)
    assert (len(answer.hits), answer.warnings) == (100, ())
