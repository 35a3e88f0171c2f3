"""Choosing a configuration by cross-validation, also on the lists of recorded requests, and saying when none is better."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from config.declarations import Pipeline
from evaluation.tuning.branch_lists import BranchLists, OfflineFusion, Recording
from evaluation.tuning.cross_validation import tune
from evaluation.tuning.recorded_lists import recorded_lists, tune_recorded
from models.errors import ServiceError
from models.hits import Hit, Ranking
from models.tables.audit import RequestRow
from records.judgements.pooling import JudgedQuestion
from tests.support.pipelines.pipeline_files import Declares, declared
from tests.unit.evaluation.recorded import PIPELINE, record

TWO_BRANCHES = """
default_configuration = "rrf"
stores.local.kind = "embedded"
branches.bm25 = { kind = "bm25", group = "lexical", store = "local", weight = 0.5 }
branches.vector = { kind = "vector", group = "dense", store = "local", weight = 0.5 }
configurations.rrf.method = "rrf"
"""
OTHER = {"bm25": "vector", "vector": "bm25"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SENTENCE, IDENTIFIER = "how do I mend the meter?", "error E4711 of the meter"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return declared(tmp_path_factory.mktemp("pipelines"), TWO_BRANCHES)


def _ranking(ids: Sequence[str]) -> Ranking:
    """Scores fall evenly from .9."""
    return Ranking(tuple(Hit(id_, id_, 0.9 - 0.01 * place) for place, id_ in enumerate(ids)))


def _contested(rng: random.Random, right: str, believes: str) -> dict[str, Ranking]:
    """Two branches find the same two documents: `believes` has `right` first, and the other branch has it last.

    With equal weights both documents have the same score, and chance decides by their ids.
    """
    ids = [f"x{rng.randrange(10**6)}" for _ in range(6)]
    wrong = f"{rng.choice('az')} {right}"
    orders = {believes: [right, *ids[:3], wrong], OTHER[believes]: [wrong, *ids[3:], right]}
    return {name: _ranking(order) for name, order in sorted(orders.items())}


def _recorded(questions: Sequence[tuple[str, str]]) -> Recording:
    """`questions`: text, and the branch that is right."""
    rng = random.Random(1)
    lists = [
        BranchLists(f"q{at}", text, _contested(rng, f"d{at}", right), {})
        for at, (text, right) in enumerate(questions)
    ]
    return Recording(lists, NOW)


def _judged(count: int) -> dict[str, dict[str, int]]:
    return {f"q{at}": {f"d{at}": 1} for at in range(count)}


def test_a_configuration_that_follows_the_better_branch_is_better_beyond_chance(pipeline: Pipeline) -> None:
    recorded = _recorded([(SENTENCE, "bm25")] * 30 + [(SENTENCE, "vector")])
    tuning = tune(pipeline, recorded, _judged(31))
    assert tuning.verdict == "better"
    rankings = OfflineFusion(pipeline, recorded).rankings(tuning.configuration)
    assert sum(rankings[f"q{at}"][0] == f"d{at}" for at in range(31)) == 30
    tuned = tuning.row("tuned")
    assert (tuned.is_held_out, tuned.gain.is_better) == (True, True)
    with pytest.raises(ServiceError, match="5 judged questions are too few"):
        tune(pipeline, _recorded([(SENTENCE, "bm25")] * 5), _judged(5))


def test_configurations_are_tried_at_the_depth_of_requests(pipeline: Pipeline) -> None:
    """The document is 6th by vectors, behind the first five of both branches, and first with its 150th place by BM25."""
    vector = [*(f"v{at}" for at in range(5)), "d0"]
    bm25 = [*(f"b{at}" for at in range(149)), "d0"]
    lists = BranchLists("q0", SENTENCE, {"bm25": _ranking(bm25), "vector": _ranking(vector)}, {})
    rankings = OfflineFusion(pipeline, Recording([lists], NOW)).rankings(pipeline.configurations["rrf"])
    assert rankings["q0"][0] == "d0"


def test_a_branch_that_the_default_leaves_out_is_tried_and_no_configuration_has_its_reranker(
    declares: Declares,
) -> None:
    pipeline = declares(
        f"""{TWO_BRANCHES}
configurations.rrf.branches = ["bm25", "vector"]
configurations.rrf.reranker = "small"
branches.notes = {{ kind = "bm25", group = "lexical", store = "local" }}
rerankers.small.model = "some/model"
configurations.reranked = {{ method = "rrf", reranker = "small" }}
"""
    )
    rng = random.Random(3)
    right = [rng.choice(["bm25", "vector"]) for _ in range(24)]
    lists = [
        replace(recorded, rankings={**recorded.rankings, "notes": _ranking([f"d{at}"])})
        for at, recorded in enumerate(_recorded([(SENTENCE, branch) for branch in right]).lists)
    ]
    tuning = tune(pipeline, Recording(lists, NOW), _judged(24))
    assert tuning.verdict == "better"
    assert "notes" in (tuning.configuration.branches or ())
    assert tuning.default == "rrf without its reranker"
    assert not {"rrf", "reranked"} & {row.name for row in tuning.rows}


@pytest.mark.slow
def test_what_holds_for_no_other_question_is_not_distinguishable(pipeline: Pipeline) -> None:
    """Which branch is right is chance: the climb finds something on all questions, and it does not hold."""
    rng = random.Random(4)
    right = [rng.choice(["bm25", "vector"]) for _ in range(24)]
    without_text = BranchLists("q24", "", {}, {})
    recorded = Recording([without_text, *_recorded([(SENTENCE, branch) for branch in right]).lists], NOW)
    tuning = tune(pipeline, recorded, _judged(25), seed=3)
    assert (tuning.verdict, tuning.is_better) == ("not distinguishable", False)
    assert tune(pipeline, recorded, _judged(25), seed=3) == tuning, "the same seed gives the same result"


@pytest.mark.slow
def test_types_of_questions_get_weights_of_their_own_where_that_is_beyond_chance(pipeline: Pipeline) -> None:
    questions = [(IDENTIFIER, "bm25"), (SENTENCE, "vector")] * 55
    tuning = tune(pipeline, _recorded(questions), _judged(110))
    assert tuning.types == {"identifier": 55, "sentence": 55}
    assert tuning.by_type is not None
    assert tuning.by_type.is_better
    weights = tuning.configuration.weights_by_type
    assert weights is not None
    assert weights["identifier"]["bm25"] > 0.5 > weights["identifier"]["vector"]
    assert weights["sentence"]["vector"] > 0.5 > weights["sentence"]["bm25"]
    assert tuning.is_better


@pytest.mark.slow
def test_a_source_that_is_right_where_the_branches_differ_is_boosted(pipeline: Pipeline) -> None:
    rng = random.Random(2)
    right = [rng.choice(["bm25", "vector"]) for _ in range(40)]

    def typed(ranking: Ranking) -> Ranking:
        types = ["law" if hit.document_id.startswith("d") else "blog" for hit in ranking.hits]
        return Ranking(
            tuple(hit._replace(source_type=type_) for hit, type_ in zip(ranking.hits, types, strict=True))
        )

    lists = [
        replace(recorded, rankings={name: typed(ranking) for name, ranking in recorded.rankings.items()})
        for recorded in _recorded([(SENTENCE, branch) for branch in right]).lists
    ]
    tuning = tune(pipeline, Recording(lists, NOW), _judged(40))
    assert tuning.verdict == "better"
    boosts = tuning.configuration.boosts
    assert boosts is not None
    assert boosts.authority["law"] > boosts.authority.get("blog", 1.0)


def recorded_row(number: int) -> RequestRow:
    """BM25 alone finds the right document first; both dense branches find another one."""
    wrong = f"wrong {number}"
    row = record({"bm25": (f"right {number}", wrong), "vector": (wrong,), "hyde": (wrong,)}).row
    row.namespace, row.questions[0].text_hash = "docs", f"question {number}"
    return row


def judged_texts(*numbers: int, grade: int = 3) -> dict[tuple[str, str], JudgedQuestion]:
    return {
        ("docs", name): JudgedQuestion("docs", name, name, {f"right {number}": grade}, False)
        for number in numbers
        for name in [f"question {number}"]
    }


def test_the_lists_of_a_judged_question_are_those_that_its_branches_reported() -> None:
    unplanned = recorded_row(1)
    unplanned.plan = None
    rows = [unplanned, recorded_row(1), recorded_row(1), recorded_row(2), recorded_row(3)]
    lists = recorded_lists(rows, PIPELINE, {**judged_texts(1), **judged_texts(2, grade=0)})
    assert [*lists] == [("docs", "question 1")]
    rankings = lists["docs", "question 1"].rankings
    ranked = {branch: [hit.document_id for hit in ranking.hits] for branch, ranking in rankings.items()}
    assert ranked == {"bm25": ["right 1", "wrong 1"], "vector": ["wrong 1"], "hyde": ["wrong 1"]}


def test_the_tuned_configuration_follows_the_branch_that_the_judgements_prefer() -> None:
    numbers = range(20)
    tuning = tune_recorded(
        map(recorded_row, numbers), PIPELINE, judged_texts(*numbers), name="tuned", limit_s=600
    )
    assert tuning.questions == 20
    # The scores that `complete_scores` needs are not recorded.
    assert not any("scores" in row.name or "complete" in row.name for row in tuning.rows)
    # With the shipped weights the dense branches outvote BM25; BM25 alone puts the right document first.
    assert tuning.row("bm25").mean == 1.0
    assert tuning.row("rrf").mean < 1.0
    assert tuning.row("tuned").mean == 1.0


def test_too_few_questions_and_too_little_time_are_errors_that_say_so() -> None:
    with pytest.raises(ServiceError, match="3 judged questions are too few to learn from; at least 20"):
        tune_recorded(
            map(recorded_row, range(3)), PIPELINE, judged_texts(*range(3)), name="tuned", limit_s=600
        )
    with pytest.raises(ServiceError, match="20 questions take longer than 0 s"):
        tune_recorded(
            map(recorded_row, range(20)), PIPELINE, judged_texts(*range(20)), name="tuned", limit_s=0
        )
