import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.rankings import collapse_ranking
from models.hits import Ranking
from tests.unit.fusion.builders import hit

LONG = hit("long", 3), hit("long", 1), hit("short", 0), hit("long", 0), hit("other", 5)


def test_the_best_passage_stands_for_its_document_and_depth_counts_documents() -> None:
    """So that one long document cannot fill a branch, and excluded documents leave no gap."""
    found = Ranking(LONG, total_matches=40, warnings=("no field 'yaer'",))
    assert collapse_ranking(found).hits == (LONG[0], LONG[2], LONG[4])
    shallow = collapse_ranking(found, 2)
    assert [one.document_id for one in shallow.hits] == ["long", "short"]
    assert (shallow.total_matches, shallow.warnings) == (40, ("no field 'yaer'",))
    assert collapse_ranking(found, 2, exclude_ids=("long",)).hits == (LONG[2], LONG[4])


def test_fusing_by_passage_keeps_every_passage_once() -> None:
    twice = Ranking((*LONG, LONG[1]))
    assert collapse_ranking(twice, fuse_by="passage").hits == LONG
    assert collapse_ranking(twice, 2, fuse_by="passage").hits == LONG[:2]
    with pytest.raises(ValueError, match="document, passage"):
        collapse_ranking(twice, fuse_by="chapter")


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3))), st.integers(0, 6))
def test_collapsing_a_second_time_changes_nothing(found: list[tuple[str, int]], depth: int) -> None:
    once = collapse_ranking(Ranking(tuple(hit(id_, position) for id_, position in found)), depth)
    assert collapse_ranking(once, depth) is once
    assert [one.document_id for one in once.hits] == list(dict.fromkeys(id_ for id_, _ in found))[:depth]
