"""Contexts in the fusion worker: what is missing costs only the context, and is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from fusion.answer import Pages
from fusion.branch_results import BranchAnswers
from models.documents import PassageText
from models.errors import ModelMissing, StoreUnavailable
from tasks.request.composing.contexts import make_contexts
from tasks.request.composing.ending import Ending
from tests.unit.fusion.builders import branch_results, fuse_question, hit, plan, request, texts

RESULTS = branch_results(bm25=[hit("a"), hit("b", 3)], vector=[hit("a"), hit("b", 4)])
TEXTS = {**texts("a"), **{f"b#{n}": PassageText(f"b#{n}", "b", "B", "", f"Part {n}.", {}) for n in range(40)}}


def contexts(
    count: Callable[[str], int] = lambda text: len(text.split()),
    *,
    store: Callable[..., Any] | None = None,
    limit_s: float = 60.0,
    around: int | str = 0,
    limit: int = 100,
) -> Pages:
    def texts_of(_: str, ids: Sequence[str], *, timeout_s: float) -> dict[str, PassageText]:
        return {id_: TEXTS[id_] for id_ in ids if id_ in TEXTS}

    query = request(context_tokens=limit, context_around=around, include=("ids",))
    planned = plan()
    resources: Any = SimpleNamespace(
        count_tokens=count,
        store=lambda name: SimpleNamespace(texts=store or texts_of),
        written_stores={},
    )
    pages = Pages({0: fuse_question(planned, RESULTS, 0, query)})
    ending = Ending(limit_s * 1_000, planned.finish_reserve_ms)
    return make_contexts(resources, BranchAnswers(query, planned, RESULTS), pages, ending)


def said(made: Pages) -> list[tuple[str, str]]:
    return [(one.where, one.reason) for one in made.degraded]


FETCHED = "[1] Title of a\nA text.\n\n[2] B\nPart 3.\nPart 4."


@pytest.mark.parametrize(
    ("around", "text", "notes"),
    [
        (0, FETCHED, [("fetch", 3, 3), ("context", 3, 3)]),
        (1, FETCHED + "\nPart 5.", [("fetch", 3, 3), ("fetch", 2, 1), ("context", 4, 4)]),
    ],
    ids=["that only one branch chose", "neighbours"],
)
def test_passages_are_fetched_and_merged(around: int, text: str, notes: list[tuple[str, int, int]]) -> None:
    made = contexts(around=around)
    assert (made.contexts[0].text, said(made)) == (text, [])
    assert [(one.stage, one.n_in, one.n_out) for one in made.stages] == notes


@pytest.mark.parametrize("around", [1, "document"])
def test_passages_beyond_the_most_that_are_read_are_left_out_with_a_warning(
    around: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert contexts(around=around).warnings == ()
    monkeypatch.setattr("tasks.request.composing.contexts.MOST_PASSAGES", 1)
    (warning,) = contexts(around=around).warnings
    assert warning.startswith("context_around: only the first ")


@pytest.mark.parametrize(
    ("failure", "reason"), [(ModelMissing("gone"), "model_missing"), (ValueError("odd"), "error")]
)
def test_a_tokenizer_that_cannot_count_costs_the_context(failure: Exception, reason: str) -> None:
    def count(text: str) -> int:
        raise failure

    made = contexts(count)
    assert (made.contexts, said(made)) == ({}, [("context", reason)])
    assert [(one.stage, one.status) for one in made.stages][-1] == ("context", "failed")


def test_without_texts_the_context_is_empty_and_the_answer_says_why() -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("gone")

    made = contexts(store=away)
    assert (made.contexts[0].text, said(made)) == ("", [("fetch", "unavailable")])


def test_without_time_there_is_no_context() -> None:
    assert said(contexts(limit_s=0)) == [("fetch", "budget"), ("context", "budget")]


def test_a_document_is_read_to_its_end_and_left_as_it_was_if_it_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fetch_counts(made: Pages) -> list[int | None]:
        return [one.n_in for one in made.stages if one.stage == "fetch"]

    # 40 passages are read in two calls, and have 80 words.
    made = contexts(around="document")
    assert made.contexts[0].citations[1].passage_ids == tuple(f"b#{n}" for n in range(40))
    assert fetch_counts(made) == [3, 61, 32]
    short = contexts(around="document", limit=80)
    assert short.contexts[0].citations[1].passage_ids == ("b#3", "b#4")
    # No more than the most passages are asked for.
    monkeypatch.setattr("tasks.request.composing.contexts.MOST_PASSAGES", 40)
    made = contexts(around="document")
    assert sum(count or 0 for count in fetch_counts(made)) == 3 + 40
    assert made.contexts[0].citations[1].passage_ids == ("b#3", "b#4")


def test_without_the_texts_around_them_the_hits_are_there_and_the_answer_says_why() -> None:
    calls: list[Sequence[str]] = []

    def away_later(_: str, ids: Sequence[str], *, timeout_s: float) -> dict[str, PassageText]:
        calls.append(ids)
        if len(calls) > 1:
            raise StoreUnavailable("gone")
        return {id_: TEXTS[id_] for id_ in ids}

    for around in (1, "document"):
        calls.clear()
        made = contexts(store=away_later, around=around)
        assert made.contexts[0].text == FETCHED
        assert said(made) == [("fetch", "unavailable")]
