"""What happens to hits after their fusion: the answer, and what it says of the hits that are not in it, of scores and of filters.

`tests/unit/fusion` says what each step does; here the steps are asked for through the pipeline, with real stores.
"""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from chorale_client.answer import Answer
from chorale_client.request_factory import ThresholdOptions
from chorale_client.wire_names import Warned

from models.documents import Document, Passage
from tests.integration.tasks.answers import ids
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import manifest_of


def counts(answer: Answer, stage: str) -> list[tuple[int | None, int | None]]:
    """What went into a stage and what came out."""
    return [(line.n_in, line.n_out) for line in answer.stages if line.stage == stage]


def test_thresholds_remove_hits_and_the_answer_says_how_many(here: OneProcess) -> None:
    here.index(namespace="limits")
    answer = here.ask("error of the meter", namespace="limits", thresholds={"min_fused_score": 0.999})
    assert (answer.status, ids(answer)) == ("complete", ["error"])
    assert answer.questions[0].removed == {"min_fused_score": 4}
    assert counts(answer, "threshold") == [(5, 1)]

    thresholds: ThresholdOptions = {"min_branch_score": {"vector": 2.0, "hyde": 2.0}, "min_fused_score": 0.9}
    answer, again = (
        here.ask("error of the meter", namespace="limits", thresholds=thresholds) for _ in range(2)
    )
    assert (answer.status, ids(answer), answer.cached, again.cached) == ("complete", [], False, True)
    # Two branches lose all their five hits; the share of the third is .3.
    assert answer.questions[0].removed == {"min_branch_score": 10, "min_fused_score": 1}
    assert again.questions[0].removed == answer.questions[0].removed


def test_groups_leave_room_for_the_next_candidates(here: OneProcess) -> None:
    """By a field that only the store of the texts knows."""
    for shop in ("north", "south"):
        texts = {f"{shop}{place}": ("Bread", f"Bread of {shop}, loaf {place}") for place in range(4)}
        here.index(texts, namespace="shops", shop=shop)
    here.index({"cake": ("Cake", "Cake is no bread")}, namespace="shops")

    options: dict[str, Any] = {"namespace": "shops", "top_k": 3}
    answer = here.ask("bread", group_by="shop", **options)
    assert answer.status == "complete"
    assert sorted(str(hit.metadata.get("shop")) for hit in answer.hits) == ["None", "north", "south"]
    assert (answer.questions[0].removed, counts(answer, "group")) == ({"group_by": 6}, [(9, 3)])
    assert all(hit.snippet for hit in answer.hits)

    answer = here.ask("bread", group_by={"field": "shop", "size": 2}, offset=3, **options)
    assert (len(answer.hits), answer.questions[0].removed) == (2, {"group_by": 4})
    answer = here.ask("bread", group_by="shops", include=["ids"], **options)
    assert (len(answer.hits), answer.warnings) == (3, ("group_by: no hit has the field 'shops'",))


def test_filters_and_thresholds_that_nothing_meets_are_dropped_in_order_and_named(here: OneProcess) -> None:
    for shop in ("north", "south"):
        here.index({shop: ("Bread", f"Bread of {shop}")}, namespace="relaxed", shop=shop, year=2020)

    def relaxed(relax: list[str], **options: Any) -> tuple[list[str], tuple[str, ...]]:
        answer = here.ask("bread", namespace="relaxed", relax=relax, **options)
        assert answer.status == "complete"
        return ids(answer), answer.questions[0].relaxed

    strict = {"shop": "south", "year": {"gte": 2024}, "kind": "cake"}
    assert relaxed([], filters=strict) == ([], ())
    # One branch after the other has dropped both; the shop was not theirs to drop.
    both = ("filters.kind", "filters.year")
    assert relaxed(list(both), filters=strict) == (["south"], both)
    assert relaxed(["filters.kind"], filters=strict) == ([], ())

    # BM25 finds nothing for either question with the filter, and the vector does: nothing is dropped.
    answer = here.ask(
        ["ERR-4711", "bread"], namespace="relaxed", filters={"shop": "south"}, relax=["filters.shop"], top_k=1
    )
    assert [[hit.document_id for hit in page.hits] for page in answer.questions] == [["south"], ["south"]]
    assert [page.relaxed for page in answer.questions] == [(), ()]

    thresholds: ThresholdOptions = {"min_branch_score": {"bm25": 99.0, "vector": 2.0, "hyde": 2.0}}
    for _ in range(2):  # searched, and from the cache
        documents, names = relaxed(["thresholds.min_branch_score"], thresholds=thresholds)
        assert (len(documents), names) == (2, ("thresholds.min_branch_score",))


def test_a_context_has_what_stands_around_the_hits(here: OneProcess) -> None:
    texts = ("Bread is baked of flour.", "The bread rests for an hour.", "Bread is eaten with butter.")
    embedder, store = here.resources.encoder.embedder, here.resources.writing_store
    passages = tuple(
        Passage(f"bread#{place}", place, text, vector=vector)
        for place, (text, vector) in enumerate(zip(texts, embedder.embed_passages(texts), strict=True))
    )
    store.create("books", manifest_of(embedder))
    bread = Document("bread", "tests", "Bread", passages, content_hash="bread", revision="bread")
    here.resources.generations.publish("books", store.upsert("books", [bread]))

    def context_of(tokens: int, **options: Any) -> Any:
        # The other passages of the book have none of these words.
        question, defaults = (
            "how long does it rest?",
            {"namespace": "books", "top_k": 1, "branches": ["bm25"]},
        )
        page = here.ask(question, context_tokens=tokens, **defaults, **options).questions[0]
        assert [hit.passage_id for hit in page.hits] == ["bread#1"]
        return page.context

    for around in (1, "document"):
        context = context_of(200, context_around=around)
        assert context.text == (
            "[1] Bread\nBread is baked of flour.\nThe bread rests for an hour.\nBread is eaten with butter."
        )
        [citation] = context.citations
        assert (citation.ranks, citation.passage_ids) == ((1,), ("bread#0", "bread#1", "bread#2"))


def test_a_filter_of_another_type_finds_and_says_so_and_an_empty_one_means_all(here: OneProcess) -> None:
    for year in (2025, 2026):
        here.index({f"y{year}": ("Bread", f"Bread of {year}")}, namespace="years", year=year, domain="law")

    def ids_and_warnings(filters: dict[str, Any], **options: Any) -> tuple[list[str], tuple[str, ...]]:
        answer = here.ask("bread", namespace="years", filters=filters, **options)
        assert answer.status == "complete"
        assert all(warning.split()[0].rstrip(":") in set(Warned) for warning in answer.warnings)
        return sorted(ids(answer)), answer.warnings

    said = "they are compared by their meaning"
    number = f"filter 'year': the request has '2026', a text, and documents have 2026, a number: {said}"
    assert ids_and_warnings({"year": "2026"}) == (["y2026"], (number,))
    assert ids_and_warnings({"year": 2026}) == (["y2026"], ())
    assert ids_and_warnings({"year": [], "domain": []}) == (["y2025", "y2026"], ())
    met = 'filter \'domain\', \'year\': no document that may be found meets {"domain":"lwa","year":2026}'
    assert ids_and_warnings({"domain": "lwa", "year": 2026}) == ([], (met,))
    # BM25 alone does not tell whether the filter or the words found nothing.
    assert ids_and_warnings({"domain": "lwa"}, branches=["bm25"]) == ([], ())


def test_branches_that_find_only_words_do_not_warn_of_a_filter_that_documents_meet(here: OneProcess) -> None:
    """`hyde` finds nothing without the passages that BM25 finds."""
    here.index({"bread": ("Bread", "Bread of rye")}, namespace="rye", year=2026)
    options: dict[str, Any] = {"namespace": "rye", "filters": {"year": 2026}, "branches": ["bm25", "hyde"]}
    for question, expected in (("bread", ["bread"]), ("zzzoil", [])):
        answer = here.ask(question, **options)
        assert (answer.status, ids(answer), answer.warnings) == ("complete", expected, ())


def test_a_passage_that_has_gone_makes_room_for_the_next_hit(here: OneProcess) -> None:
    names = [f"b{place}" for place in range(4)]
    here.index({name: ("Bread", f"Bread {name}") for name in names}, namespace="going")
    options: dict[str, Any] = {"namespace": "going", "weights": {"bm25": 1.0, "vector": 0.01}, "top_k": 2}
    options["branches"] = ["bm25", "vector"]
    before = ids(here.ask("bread", cache="bypass", **options))
    request_id = here.submit("bread", cache="bypass", **options)
    here.work("chorale.bm25")
    here.resources.writing_store.delete("going", before[:1])
    with structlog.testing.capture_logs() as logs:
        here.work()
    answer = here.answer(request_id)
    assert answer.status == "complete"
    assert len(answer.hits) == 2
    assert before[0] not in ids(answer)
    assert all(hit.snippet for hit in answer.hits)
    [gone] = [one for one in logs if one["event"] == "passages gone"]
    assert answer.warnings == (
        f"document_missing: no text in the store for {gone['passages'][0]}; their hits are left out",
    )


def test_a_question_that_nothing_answers_is_abstained_and_keeps_its_hits(here: OneProcess) -> None:
    here.index(namespace="trust")
    unanswered = "Which planet has the most moons?"
    answer = here.ask(["When must a tenant give notice?", unanswered], abstain=0.5, namespace="trust")
    good, bad = answer.questions
    assert (answer.status, good.abstained, bad.abstained) == ("complete", False, True)
    assert good.confidence is not None
    assert bad.confidence is not None
    assert bad.confidence < 0.2 < 0.8 < good.confidence
    assert good.hits[0].document_id == "notice"
    assert (len(bad.hits), answer.warnings) == (5, ())

    # Without the option the answer says the same, and nothing is abstained.
    page = here.ask(unanswered, namespace="trust").questions[0]
    assert (page.confidence, page.abstained, page.signals) == (bad.confidence, False, {})


def test_with_scores_every_branch_scores_every_hit_and_the_hits_score_follows(here: OneProcess) -> None:
    answer = here.ask("ERR-4711", configuration="scores", cache="bypass", include=["metadata", "explanation"])
    assert answer.status == "complete"
    assert [line.status for line in answer.stages if line.stage == "score"] == ["ok"]
    assert len(answer.hits) > 1
    for hit in answer.hits:
        assert set(hit.branches) == {"bm25", "vector", "hyde"}
        assert set(hit.found_by) == {name for name, score in hit.branches.items() if score.rank}
        by_hand = sum(score.weight * score.normalised for score in hit.branches.values())
        assert hit.score == pytest.approx(by_hand, rel=1e-9)
    # Only BM25 searches words: what has none of them gets 0.
    assert {hit.branches["bm25"].score for hit in answer.hits if "bm25" not in hit.found_by} == {0}


def test_a_document_is_left_out_by_the_id_that_it_was_handed_in_with(here: OneProcess) -> None:
    kept = "Caf\u00e9 menu"
    here.index(
        {kept: ("Coffee", "Coffee of the day."), "tea": ("Tea", "Tea, and no coffee.")}, namespace="excluding"
    )
    asked = {"namespace": "excluding", "timeout_s": 20}
    assert set(ids(here.ask("coffee", **asked))) == {kept, "tea"}
    for written in ("Cafe\u0301 menu", f" {kept} ", kept):
        assert ids(here.ask("coffee", exclude_ids=[written], **asked)) == ["tea"]
