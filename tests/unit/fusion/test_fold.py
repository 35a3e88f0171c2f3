from fusion.deduplication import Duplicate, Why, deduplicate
from models.hits import Hit
from tests.unit.fusion.builders import hit


def folded(*hits: Hit) -> dict[str, list[tuple[str, Why]]]:
    return {
        hits[index].passage_id: [(one.document_id, one.why) for one in gone]
        for index, gone in deduplicate(hits)
    }


def test_an_exact_copy_folds_into_the_better_scored_one_with_the_reason() -> None:
    best, copy = (hit(id_, content_hash="h", near_duplicate_group="best") for id_ in ("best", "copy"))
    other = hit("other", content_hash="x")
    assert deduplicate([best, other, copy]) == [(0, [Duplicate("copy", Why.EXACT_COPY, 1.0)]), (1, [])]
    # Without hash and group nothing folds.
    assert folded(hit("a"), hit("b"), hit("c", content_hash="")) == {"a#0": [], "b#0": [], "c#0": []}


def test_near_duplicates_fold_with_their_group_and_its_leader() -> None:
    leader, one = hit("leader"), hit("one", near_duplicate_group="leader")
    two = hit("two", near_duplicate_group="leader")
    near = Why.NEAR_DUPLICATE
    assert folded(leader, one, two) == {"leader#0": [("one", near), ("two", near)]}
    assert folded(two, leader, one) == {"two#0": [("leader", near), ("one", near)]}
    assert deduplicate([leader, one])[0][1][0].similarity is None


def test_folding_does_not_chain() -> None:
    first = hit("first", near_duplicate_group="g1", content_hash="1")
    middle = hit("middle", near_duplicate_group="g1", content_hash="2")
    last = hit("last", near_duplicate_group="g2", content_hash="2")
    assert folded(first, middle, last) == {"first#0": [("middle", Why.NEAR_DUPLICATE)], "last#0": []}


def test_passages_of_one_document_stay_apart_while_its_copies_fold_once() -> None:
    passages = [hit("a", 0, content_hash="h"), hit("a", 1, content_hash="h")]
    copies = [hit("b", 0, content_hash="h"), hit("b", 1, content_hash="h")]
    assert folded(*passages, *copies) == {"a#0": [("b", Why.EXACT_COPY)], "a#1": []}
