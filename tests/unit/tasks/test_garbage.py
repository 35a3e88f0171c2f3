from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tasks.worker.warming import collect_seldom

pytestmark = pytest.mark.slow  # the collector looks at all objects of all tests before


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


class Node:
    pass


def test_what_the_start_has_made_is_not_looked_at_again_and_answers_set_off_no_collection() -> None:
    made = [Node() for _ in range(1_000)]
    collect_seldom()
    seen = {id(one) for one in gc.get_objects()}
    assert not any(id(one) in seen for one in made)
    before = gc.get_stats()[0]["collections"]
    rankings = [[[f"document {place}", float(place)] for place in range(100)] for _ in range(30)]
    assert gc.get_stats()[0]["collections"] == before
    assert len(rankings) == 30


def test_garbage_that_refers_to_itself_is_still_collected() -> None:
    collect_seldom()
    one = Node()
    one.myself = one  # type: ignore[attr-defined]
    is_left = weakref.ref(one)
    del one
    gc.collect()
    assert is_left() is None
