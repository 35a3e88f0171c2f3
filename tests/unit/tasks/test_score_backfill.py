"""The scores that complete a ranking come from the branch's store; a missing score is reported, and costs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fusion.branch_results import BranchAnswers
from models.branch_result import BranchResult
from models.documents import Vector
from models.errors import StoreUnavailable
from models.hits import QueryInputs, Ranking
from search.deadline import Deadline
from tasks.request.composing.score_backfill import ScoreBackfill, complete
from tasks.wiring.pipeline import BUILT_IN
from tests.unit.fusion.builders import branch, hit, plan, request

EAST, NORTH = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
LEXICAL = Ranking((hit("a", score=5.0), hit("b", score=2.0)), query_inputs=QueryInputs({"pear": 1.0}))
DENSE = Ranking((hit("c", score=0.9),), query_inputs=QueryInputs.by_vectors([EAST]))


class Store:
    """Vectors alone, as of a server that cannot score texts by id."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.calls = failure, list[Sequence[str]]()

    def vectors(self, _: str, passage_ids: Sequence[str], *, timeout_s: float) -> dict[str, Vector]:
        self.calls.append(passage_ids)
        if self.failure:
            raise self.failure
        return {"a#0": 0.6 * EAST + 0.8 * NORTH}


class TextStore(Store):
    def score_text(
        self, _: str, texts: Sequence[str], passage_ids: Sequence[Sequence[str]], *, timeout_s: float
    ) -> list[dict[str, float]]:
        return [dict.fromkeys(ids, float(len(text))) for text, ids in zip(texts, passage_ids, strict=True)]


def done(
    store: Store, *, limit_s: float = 5.0, searched: Sequence[int] = (0,), **rankings: Sequence[Ranking]
) -> ScoreBackfill:
    answers = BranchAnswers(
        request(),
        plan(
            [branch("bm25"), branch("vector")], method="dbsf", searched=tuple(searched), complete_scores=True
        ),
        {
            name: BranchResult(name, "ok", rankings=tuple(ranked))
            for name, ranked in (rankings or {"bm25": [LEXICAL], "vector": [DENSE]}).items()
        },
    )
    resources: Any = SimpleNamespace(serving=lambda *_: store)
    return complete(resources, answers, BUILT_IN.method, Deadline(limit_s, "the store"))


def test_vectors_by_id_give_cosines_and_a_store_of_texts_gives_bm25() -> None:
    completed = done(TextStore())
    assert completed.scores == [{"bm25": {"c#0": 4.0}, "vector": {"a#0": pytest.approx(0.6)}}]
    note = completed.note
    assert note is not None
    assert (note.stage, note.status, note.n_in, note.n_out) == ("score", "ok", 3, 2)
    assert completed.why is None
    # Of several vectors the best cosine counts, and a store that cannot score texts is no failure.
    several = Ranking(DENSE.hits, query_inputs=QueryInputs.by_vectors([EAST, NORTH]))
    by_vectors = done(Store(), bm25=[LEXICAL], vector=[several])
    [scores] = by_vectors.scores
    assert not scores["bm25"]
    assert dict(scores["vector"]) == {"a#0": pytest.approx(0.8)}
    assert by_vectors.why is None
    # A ranking that does not say what it asked is not completed.
    assert done(TextStore(), bm25=[Ranking(LEXICAL.hits)], vector=[Ranking(DENSE.hits)]).scores == [{}]


def test_only_requested_scores_are_used_and_as_plain_numbers() -> None:
    class Talkative(TextStore):
        def score_text(self, *args: Any, **named: Any) -> list[dict[str, Any]]:
            return [{**dict.fromkeys(ids, np.float32(0.1)), "z#0": 9.0} for ids in args[2]]

    [scores] = done(Talkative()).scores
    assert scores["bm25"] == {"c#0": float(np.float32(0.1))}
    assert type(scores["bm25"]["c#0"]) is float


def test_all_questions_share_one_call_for_vectors() -> None:
    store = TextStore()
    done(store, searched=(0, 1), bm25=[LEXICAL, LEXICAL], vector=[DENSE, DENSE])
    assert store.calls == [["a#0", "b#0"]]


@pytest.mark.parametrize(
    ("failure", "reason"), [(StoreUnavailable("away"), "unavailable"), (KeyError("x"), "error")]
)
def test_a_store_that_fails_is_named_and_the_other_branch_keeps_its_scores(
    failure: Exception, reason: str
) -> None:
    completed = done(TextStore(failure))
    assert completed.scores == [{"bm25": {"c#0": 4.0}, "vector": {}}]
    assert completed.why is not None
    assert (completed.why.where, completed.why.reason) == ("score", reason)
    assert completed.note is not None
    assert completed.note.status == "partial"


def test_no_store_is_asked_when_the_time_is_over() -> None:
    store = TextStore()
    completed = done(store, limit_s=0.0)
    assert (store.calls, completed.why and completed.why.reason) == ([], "budget")


@pytest.mark.parametrize(
    "inputs",
    [
        QueryInputs(vectors=(b"123",)),
        QueryInputs(vectors=(EAST.tobytes(), b"")),
        QueryInputs.by_vectors([np.ones(3, np.float32)]),
    ],
)
def test_vectors_that_do_not_fit_cost_only_their_branch(inputs: QueryInputs) -> None:
    completed = done(TextStore(), bm25=[LEXICAL], vector=[Ranking(DENSE.hits, query_inputs=inputs)])
    assert completed.scores == [{"bm25": {"c#0": 4.0}, "vector": {}}]
    assert completed.why is not None


def test_the_inputs_relaxation_and_known_words_of_a_ranking_go_over_the_wire() -> None:
    for ranking in (LEXICAL, DENSE, replace(DENSE, relaxed=2, known_words=0.0)):
        assert Ranking.from_wire(ranking.to_wire()) == ranking
    assert not {"relaxed", "known_words"} & LEXICAL.to_wire().keys()
    assert replace(LEXICAL, known_words="many").complaint() is not None  # type: ignore[arg-type]
