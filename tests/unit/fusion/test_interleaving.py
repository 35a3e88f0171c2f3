"""Team-draft interleaving: whose hits stand where on a page that two rankings share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import cycle, islice, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedQuestion
from fusion.interleaving import coins_of, fused_question, missing_scores, team_draft
from models.branch_result import BranchResult
from models.plan import FusionPlan, Plan
from tasks.wiring.pipeline import BUILT_IN
from tests.unit.fusion.builders import branch, branch_results, hit, ids, plan, request

BOTH = cycle((0, 1))
RANKINGS = st.lists(st.sampled_from("abcdefgh"), unique=True)


def drafted(a: Iterable[str], b: Iterable[str], coins: Iterable[int]) -> list[tuple[str, str | None]]:
    """Each hit with its team.  `d+e` is a document `d` with the copy `e`."""
    rankings = [text.split("+") for text in a], [text.split("+") for text in b]
    first, second = ([{*ids} for ids in ranking] for ranking in rankings)
    slots = team_draft(first, second, iter(coins))
    return [(rankings[slot.side][slot.place][0], slot.team) for slot in slots]


def test_each_round_gives_each_team_its_best_hit_that_is_not_shown_yet() -> None:
    # A picks first: a and b; then B picks first: e, and A's next is c.
    assert drafted("abc", "bed", [0, 1]) == [("a", "A"), ("b", "B"), ("e", "B"), ("c", "A"), ("d", None)]


def test_what_both_would_pick_and_what_remains_of_one_ranking_belong_to_nobody() -> None:
    # The common first hit tosses no coin; b and c differ; after them both are at d again.
    assert drafted("abd", "acd", [1]) == [("a", None), ("c", "B"), ("b", "A"), ("d", None)]
    assert drafted("abc", "abc", []) == [("a", None), ("b", None), ("c", None)]
    # A longer ranking would otherwise win clicks by its length.
    assert drafted("abcd", "x", [1]) == [("x", "B"), ("a", "A"), ("b", None), ("c", None), ("d", None)]
    assert drafted("", "xy", []) == [("x", None), ("y", None)]


def test_a_copy_of_a_shown_document_is_not_shown_again() -> None:
    assert drafted(["d+e", "f"], ["e+d", "f"], []) == [("d", None), ("f", None)]
    # B does not fold, and A's d stands for both.
    assert drafted(["d+e", "x"], ["y", "d", "e"], [0]) == [("d", "A"), ("y", "B"), ("x", None)]


@given(RANKINGS, RANKINGS, st.lists(st.integers(0, 1), min_size=8, max_size=8))
def test_a_page_has_every_hit_once_and_credits_only_where_the_picks_differ(
    a: list[str], b: list[str], coins: list[int]
) -> None:
    page = drafted(a, b, coins)
    assert sorted(document for document, _ in page) == sorted({*a, *b})
    place = 0
    while place < len(page):
        earlier = {document for document, _ in page[:place]}
        picks = [next((each for each in side if each not in earlier), None) for side in (a, b)]
        if page[place][1] is None:
            assert picks[0] == picks[1] == page[place][0] or None in picks
            place += 1
        else:  # a round: both picks, each of its team
            assert picks[0] != picks[1]
            assert sorted(page[place : place + 2]) == sorted([(picks[0], "A"), (picks[1], "B")])
            place += 2


@given(RANKINGS, RANKINGS)
def test_over_all_coins_a_reader_who_clicks_by_place_alone_favours_neither_team(
    a: list[str], b: list[str]
) -> None:
    a, b = a[:5], b[:5]
    by_place: Counter[tuple[int, str | None]] = Counter()
    for coins in product((0, 1), repeat=5):
        for place, (_, team) in enumerate(islice(drafted(a, b, coins), 5)):
            by_place[place, team] += 1
    for place in range(5):
        assert by_place[place, "A"] == by_place[place, "B"]


def test_the_coins_of_a_request_are_always_the_same_and_fall_on_both_sides_alike() -> None:
    assert [*islice(coins_of("r1"), 600)] == [*islice(coins_of("r1"), 600)]
    assert [*islice(coins_of("r1"), 64)] != [*islice(coins_of("r2"), 64)]
    first = sum(next(coins_of(f"request {number}")) for number in range(2_000))
    # Half of 2,000 within four standard deviations (22.4).
    assert 910 < first < 1_090


LISTS = branch_results(bm25=[hit("a"), hit("b"), hit("c")], vector=[hit("c"), hit("d"), hit("a")])
BRANCHES = (branch("bm25", weight=1.0), branch("vector", weight=0.1))


def rival(**fields: object) -> FusionPlan:
    branches = (branch("bm25", weight=0.1), branch("vector", weight=1.0))
    values = {"configuration": "b", "branches": branches, "method": "rrf", "k": 60.0, **fields}
    return FusionPlan.model_validate(values)


def fused(plan: Plan, lists: dict[str, BranchResult] = LISTS, **options: Any) -> FusedQuestion:
    return fused_question(BranchAnswers(request(**options), plan, lists), 0, BUILT_IN.method)


def alone(branches: tuple[object, ...], method: str = "rrf") -> dict[str, float]:
    one = fused(plan(branches, method=method))  # type: ignore[arg-type]
    return {each.document_id: each.score for each in one.hits}


def test_a_plan_with_a_rival_gives_the_drafted_page_with_the_scores_of_both() -> None:
    # A: a 1/61 + .1/63, c, b 1/62, d; B: c 1/61 + .1/63, a, d 1/62, b.
    assert (list(alone(BRANCHES)), list(alone(rival().branches))) == (list("acbd"), list("cadb"))
    interleaved = fused(plan(BRANCHES, rival=rival(method="dbsf")))
    teams = from_json(interleaved.stages[-1].detail or "")
    scores = {"A": alone(BRANCHES), "B": alone(rival().branches, "dbsf")}
    assert sorted(ids(interleaved)) == list("abcd")
    assert interleaved.ordered_by == "interleaved"
    assert teams["A"]
    for each in interleaved.hits:
        team = "B" if each.score_kind == "dbsf" else "A"
        assert each.score == scores[team][each.document_id]
        assert each.document_id not in teams["B" if team == "A" else "A"]


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_a_shorter_page_is_the_beginning_of_a_longer_one(top_k: int) -> None:
    drawn = plan(BRANCHES, rival=rival())
    assert ids(fused(drawn, top_k=top_k)) == ids(fused(drawn))[:top_k]


def test_where_both_rank_alike_the_page_is_that_of_the_configuration() -> None:
    same = rival(branches=BRANCHES)
    as_it_is, interleaved = fused(plan(BRANCHES)), fused(plan(BRANCHES, rival=same))
    assert interleaved.hits == as_it_is.hits
    assert interleaved.ordered_by == "score"
    note = interleaved.stages[-1]
    assert (note.stage, note.n_out, from_json(note.detail or "")) == ("interleave", 0, {"A": [], "B": []})


def test_pinned_hits_stay_first_and_belong_to_nobody() -> None:
    rules = {0: {"pinned": {"d": "season"}}}
    interleaved = fused(plan(BRANCHES, rival=rival(), rules=rules))
    assert (ids(interleaved)[0], interleaved.hits[0].pinned) == ("d", "season")
    assert "d" not in str(interleaved.stages[-1].detail)


def test_scores_are_requested_once_for_both_sides() -> None:
    def missing(**fields: Any) -> dict[str, list[str]]:
        answers = BranchAnswers(request(), plan(BRANCHES, **fields), LISTS)
        return missing_scores(answers, 0, BUILT_IN.method)

    both = {"bm25": ["d#0"], "vector": ["b#0"]}
    completing = rival(method="dbsf", complete_scores=True)
    assert missing(rival=rival()) == {}
    assert missing(rival=completing) == both
    assert missing(method="dbsf", complete_scores=True, rival=rival()) == both
    # What only a branch of weight 0 found needs no score, and A gives BM25 none.
    only_vector = (branch("bm25", weight=0.0), branch("vector", weight=1.0))
    alone = plan(only_vector, method="dbsf", complete_scores=True)
    assert missing_scores(BranchAnswers(request(), alone, LISTS), 0, BUILT_IN.method) == {"vector": []}
    with_b = alone.model_copy(update={"rival": completing})
    assert missing_scores(BranchAnswers(request(), with_b, LISTS), 0, BUILT_IN.method) == both
