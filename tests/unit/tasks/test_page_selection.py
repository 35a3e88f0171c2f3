"""A page chosen among all candidates, with stores that have vectors and metadata, and stores that have not."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from chorale_client.request import Request

from fusion.answer import Pages
from fusion.branch_results import BranchAnswers
from models.branch_result import BranchResult
from models.documents import PassageText, Vector
from models.errors import StoreUnavailable
from models.plan import Plan
from search.deadline import Deadline
from tasks.request.composing.page_selection import choose_pages
from tasks.wiring.pipeline import BUILT_IN
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, plan, request, texts

EAST, NORTH = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
SAME = {"a#0": EAST, "b#0": EAST, "c#0": EAST, "d#0": NORTH}
HITS = [hit(name) for name in "abcd"]


class Store:
    def __init__(self, vectors: dict[str, Vector], failure: Exception | None = None) -> None:
        self.known, self.failure = vectors, failure

    def vectors(self, _: str, passage_ids: Sequence[str], *, timeout_s: float) -> dict[str, Vector]:
        if self.failure:
            raise self.failure
        return {id_: self.known[id_] for id_ in passage_ids if id_ in self.known}

    def texts(self, _: str, passage_ids: Sequence[str], *, timeout_s: float) -> dict[str, PassageText]:
        if self.failure:
            raise self.failure
        return {**texts("a", "b", shop="north"), **texts("c", "d", shop="south")}


def chosen(*stores: Store, limit_s: float = 5.0, **options: Any) -> Pages:
    """`stores`: of the branch `vector`, and of `bm25`."""
    places = {"bm25": str(len(stores) - 1), "vector": "0"}
    planned = plan([branch(name).model_copy(update={"store": store}) for name, store in places.items()])
    query, results = request(**options), branch_results(bm25=HITS, vector=HITS)
    return choose(planned, query, results, stores, limit_s)


def choose(
    planned: Plan, query: Request, results: dict[str, BranchResult], stores: Sequence[Store], limit_s: float
) -> Pages:
    resources: Any = SimpleNamespace(
        store=lambda name: stores[int(name)],
        written_stores={},
        pipeline=SimpleNamespace(kinds=SimpleNamespace(branches=BUILT_IN.branches)),
    )
    pages = Pages({0: fuse_question(planned, results, 0, query)})
    return choose_pages(
        resources, BranchAnswers(query, planned, results), pages, Deadline(limit_s / 2, "the store")
    )


def ids(made: Pages) -> list[str]:
    return [one.document_id for one in made.fused[0].hits]


def test_hits_that_are_like_a_better_hit_give_way() -> None:
    selected = chosen(Store(SAME), diversity=0.6, top_k=3)
    assert (ids(selected), selected.fused[0].ordered_by, selected.degraded) == (["a", "d", "b"], "mmr", ())
    notes = [(note.stage, note.status, note.n_in, note.n_out) for note in selected.stages]
    assert notes == [("diversify", "ok", 4, 4)]
    # Pages of one order fit together.
    pages = [chosen(Store(SAME), diversity=0.6, top_k=1, offset=offset) for offset in range(4)]
    assert [name for page in pages for name in ids(page)] == ids(chosen(Store(SAME), diversity=0.6))
    # Another store of the plan may have what the first one lacks.
    selected = chosen(Store({"a#0": EAST}), Store(SAME), diversity=0.6)
    assert (ids(selected), selected.degraded) == (["a", "d", "b", "c"], ())


def test_a_store_without_vectors_leaves_the_order_and_the_answer_says_so() -> None:
    selected = chosen(Store({}), diversity=0.6)
    assert (ids(selected), selected.fused[0].ordered_by) == (list("abcd"), "score")
    assert [(one.where, one.reason, one.detail) for one in selected.degraded] == [
        ("diversify", "not_configured", "no vectors of 4 of 4 hits: the order stays by score")
    ]


def test_a_hit_without_a_vector_counts_as_unlike_all_others() -> None:
    selected = chosen(Store(dict.fromkeys(("a#0", "b#0", "d#0"), EAST)), diversity=0.6)
    assert ids(selected) == ["a", "c", "b", "d"]
    assert [(one.reason, one.detail) for one in selected.degraded] == [
        ("not_configured", "no vectors of 1 of 4 hits: these count as unlike all others")
    ]
    assert selected.stages[0].status == "partial"


@pytest.mark.parametrize(
    ("store", "limit_s", "reason"),
    [
        (Store(SAME, StoreUnavailable("gone")), 5.0, "unavailable"),
        (Store(SAME, RuntimeError("odd")), 5.0, "error"),
        (Store(SAME), 0.0, "timeout"),
        (Store({**SAME, "a#0": np.array([1, 0, 0], np.float32)}), 5.0, "invalid_answer"),
        (Store({**SAME, "a#0": np.array([1, np.nan], np.float32)}), 5.0, "invalid_answer"),
    ],
)
def test_vectors_that_cannot_be_read_cost_only_the_order(store: Store, limit_s: float, reason: str) -> None:
    selected = chosen(store, limit_s=limit_s, diversity=0.6)
    assert (ids(selected), selected.fused[0].ordered_by) == (list("abcd"), "score")
    assert [(one.where, one.reason) for one in selected.degraded] == [("diversify", reason)]


def test_groups_are_made_before_hits_are_compared() -> None:
    selected = chosen(Store(SAME), diversity=0.6, group_by="shop")
    assert ids(selected) == ["a", "c"]
    assert [note.stage for note in selected.stages] == ["fetch", "group", "diversify"]


def test_without_metadata_the_hits_stay_ungrouped_and_the_answer_says_so() -> None:
    selected = chosen(Store(SAME, StoreUnavailable("gone")), group_by="shop")
    assert ids(selected) == list("abcd")
    assert [(one.where, one.reason) for one in selected.degraded] == [("fetch", "unavailable")]


def test_only_the_best_fifty_are_compared_and_the_others_follow() -> None:
    many = [hit(f"d{place:03}") for place in range(400)]
    vectors = {one.passage_id: NORTH if place % 2 else EAST for place, one in enumerate(many)}
    planned = plan([branch("vector", depth=400).model_copy(update={"store": "0"})])
    selected = choose(
        planned, request(diversity=0.5, top_k=400), branch_results(vector=many), [Store(vectors)], 60
    )
    assert ids(selected)[50:] == [one.document_id for one in many[50:]]
    assert sorted(ids(selected)) == sorted(one.document_id for one in many)
