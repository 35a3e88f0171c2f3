"""Two jobs over the same lines are compared as their lines come."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from records.jobs.comparison import compare, overlap


def line(identifier: str, *documents: str, status: str = "complete", **fields: Any) -> dict[str, Any]:
    hits = [{"rank": rank, "document_id": name} for rank, name in enumerate(documents, start=1)]
    return {"id": identifier, "status": status, "hits": hits, "degraded": [], **fields}


def test_equal_top_hits_and_the_overlap_are_shares_of_the_questions_that_both_answered() -> None:
    late = {"where": "vector", "reason": "timeout"}
    lacks = [late, late, {"where": "hyde", "reason": "unavailable"}]
    comparison = compare(
        [
            line("1", "a", "b"),
            line("2", "a", "b", degraded=lacks),
            line("3", "a"),
            line("4", status="failed"),
        ],
        [line("1", "a", "b"), line("2", "b", "c"), line("3", status="expired"), line("4", status="failed")],
    ).fields()
    assert comparison == {
        "lines": 2,
        "questions": 2,
        "equal_top_hits": 0.5,
        "overlap_at_10": 0.75,
        "unanswered": [1, 2],
        "degraded": [{"vector timeout": 1, "hyde unavailable": 1}, {}],
        "only_in": [0, 0],
        # a and b, b and c: one of two documents is in both.
        "most_changed": [{"id": "2", "overlap_at_10": 0.5}],
    }
    assert compare([line("1", "a")], [line("2", "a")]).fields()["equal_top_hits"] is None


def test_lines_are_matched_by_their_ids_in_any_order() -> None:
    first = [line(str(number), f"d{number}") for number in range(6)]
    second = [line(str(number), f"d{number}") for number in (7, 5, 4, 3, 2, 1, 8)]
    comparison = compare(first, second)
    assert (comparison.lines, comparison.equal_top_hits, comparison.only_in) == (5, 5, [1, 2])


def test_the_ten_questions_that_changed_most_are_named_first_those_with_the_least_overlap() -> None:
    first = [line(f"q{number}", *(f"d{at}" for at in range(20))) for number in range(12)]
    # The answer of `qN` shares 9 - N of its first ten documents, at least none.
    second = [
        line(f"q{number}", *(f"{'d' if at < 9 - number else 'x'}{at}" for at in range(10)))
        for number in range(12)
    ]
    changed = compare(first, second).fields()["most_changed"]
    assert [one["overlap_at_10"] for one in changed] == [0, 0, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert [one["id"] for one in changed[3:]] == [f"q{number}" for number in range(8, 1, -1)]


def test_a_refused_line_with_the_id_of_another_takes_nothing_from_it() -> None:
    first = [line("1", "a"), line("1", status="refused"), line("2", "b")]
    second = [line("0", "z"), line("1", "a"), line("2", "b")]
    for one, other, only_in in ((first, second, [1, 1]), (second, first, [1, 1])):
        comparison = compare(one, other)
        assert (comparison.lines, comparison.equal_top_hits, comparison.unanswered, comparison.only_in) == (
            2,
            2,
            [0, 0],
            only_in,
        )


def test_each_question_of_a_line_counts() -> None:
    def several(*tops: str) -> dict[str, Any]:
        answers = [{"status": "complete", "hits": [{"document_id": top}]} for top in tops]
        return {"id": "1", "status": "complete", "questions": answers}

    comparison = compare([several("a", "b")], [several("a", "c")])
    assert (comparison.lines, comparison.questions, comparison.equal_top_hits) == (1, 2, 1)


@pytest.mark.parametrize(
    ("ours", "theirs", "shared"), [("abc", "abc", 1.0), ("abcd", "dx", 0.25), ("", "", 1.0), ("a", "", 0.0)]
)
def test_the_overlap_is_a_share_of_the_longer_list(ours: str, theirs: str, shared: float) -> None:
    assert overlap(tuple(ours), tuple(theirs)) == shared


def test_memory_stays_the_same_for_lines_in_the_same_order() -> None:
    def lines(count: int) -> Iterator[dict[str, Any]]:
        return (line(str(number), *documents) for number in range(count))

    documents: Sequence[str] = [f"d{number}" for number in range(10)]
    tracemalloc.start()
    compare(lines(1_500), lines(1_500))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000, "all lines take three times as much"
