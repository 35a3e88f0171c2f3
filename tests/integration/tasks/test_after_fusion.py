"""What happens to hits after their fusion: the answer, and what it says of the hits that are not in it."""

from __future__ import annotations

import random
from typing import Any

from chorale_client.answer import Answer
from chorale_client.request_options import ThresholdOptions

from fusion.autocut import hits_before_jump
from ingest.raw_documents import RawDocument
from models.documents import Document, Passage
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import manifest_of


def ids(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits]


def test_thresholds_remove_hits_and_the_answer_says_how_many(here: OneProcess) -> None:
    here.index(namespace="limits")
    asked: dict[str, Any] = {"namespace": "limits", "include": ["ids", "metadata"], "timeout_s": 20}
    everything = here.ask("ERR-4711", **asked)
    assert len(everything.hits) == 5
    bm25 = {hit.document_id for hit in everything.hits if "bm25" in hit.found_by}
    assert bm25 == {"error"}

    thresholds: ThresholdOptions = {"min_branch_score": {"vector": 2.0, "hyde": 2.0}, "min_fused_score": 0.9}
    answer = here.ask("ERR-4711", thresholds={"min_fused_score": 0.999}, **asked)
    assert (answer.status, ids(answer), answer.questions[0].removed) == (
        "complete",
        ["error"],
        {"min_fused_score": 4},
    )
    assert [(line.n_in, line.n_out) for line in answer.stages if line.stage == "threshold"] == [(5, 1)]

    answer = here.ask("ERR-4711", thresholds=thresholds, **asked)
    assert not answer.cached
    assert (answer.status, ids(answer)) == ("complete", [])
    # Two branches lose all their five hits; the share of the third is .3.
    assert answer.questions[0].removed == {"min_branch_score": 10, "min_fused_score": 1}

    again = here.ask("ERR-4711", thresholds=thresholds, **asked)
    assert again.questions[0].removed == answer.questions[0].removed


def test_a_threshold_that_no_stage_reads_is_refused_by_name(here: OneProcess) -> None:
    answer = here.ask("bread", thresholds={"min_branch_score": {"bm52": 1}})
    assert answer.status == "failed"
    assert answer.degraded[0].detail == (
        "thresholds.min_branch_score: no 'bm52'; there are: bm25, vector, hyde"
    )
    answer = here.ask("bread", thresholds={"min_rerank_score": 0.5})
    assert answer.degraded[0].detail.startswith("thresholds.min_rerank_score: no reranker runs")


def test_groups_leave_room_for_the_next_candidates(here: OneProcess) -> None:
    """By a field that only the store of the texts knows."""
    for shop in ("north", "south"):
        texts = {f"{shop}{place}": ("Bread", f"Bread of {shop}, loaf {place}") for place in range(4)}
        here.index(texts, namespace="shops", shop=shop)
    here.index({"cake": ("Cake", "Cake is no bread")}, namespace="shops")

    asked: dict[str, Any] = {"namespace": "shops", "timeout_s": 20, "top_k": 3}
    answer = here.ask("bread", group_by="shop", **asked)
    assert answer.status == "complete"
    assert sorted(str(hit.metadata.get("shop")) for hit in answer.hits) == ["None", "north", "south"]
    assert [hit.rank for hit in answer.hits] == [1, 2, 3]
    assert answer.questions[0].removed == {"group_by": 6}
    assert [(line.n_in, line.n_out) for line in answer.stages if line.stage == "group"] == [(9, 3)]
    assert all(hit.snippet for hit in answer.hits)

    answer = here.ask("bread", group_by={"field": "shop", "size": 2}, offset=3, **asked)
    assert (len(answer.hits), answer.questions[0].removed) == (2, {"group_by": 4})
    answer = here.ask("bread", group_by="shops", include=["ids"], **asked)
    assert (len(answer.hits), answer.warnings) == (3, ("group_by: no hit has the field 'shops'",))


def test_hits_that_repeat_a_better_hit_give_way_to_others(here: OneProcess) -> None:
    said = "Bread is baked from flour, water, salt and a little patience."
    same = {f"same{place}": ("Bread", f"{said}{' ' * place}{'!' * place}") for place in range(3)}
    here.index(
        {**same, "price": ("Prices", "The price of bread rose by a tenth in May.")}, namespace="bakery"
    )
    asked: dict[str, Any] = {"namespace": "bakery", "timeout_s": 20, "top_k": 2}
    question = "what is bread baked from?"

    plain = here.ask(question, **asked)
    assert {document[:4] for document in ids(plain)} == {"same"}
    answer = here.ask(question, diversity=0.7, **asked)
    assert (answer.status, answer.questions[0].ordered_by) == ("complete", "mmr")
    assert ids(answer) == [ids(plain)[0], "price"]
    assert [(line.status, line.n_in, line.n_out) for line in answer.stages if line.stage == "diversify"] == [
        ("ok", 4, 4)
    ]
    # 0 is the order by score.
    answer = here.ask(question, diversity=0, **asked)
    assert (ids(answer), answer.questions[0].ordered_by) == (ids(plain), "score")


def test_the_passages_of_the_hits_are_packed_for_a_language_model(here: OneProcess) -> None:
    _index_two_books(here)
    asked: dict[str, Any] = {"namespace": "books", "timeout_s": 20, "fuse_by": "passage", "include": ["ids"]}
    answer = here.ask("how is bread baked?", context_tokens=500, **asked)
    assert answer.status == "complete"
    context = answer.questions[0].context
    assert context is not None
    count = here.resources.embedder.count_pieces
    assert context.tokens == count(context.text) <= 500
    ranks = {hit.passage_id: hit.rank for hit in answer.hits}
    for one in context.citations:
        assert sorted(ranks[id_] for id_ in one.passage_ids) == list(one.ranks)
        assert {id_.split("#")[0] for id_ in one.passage_ids} == {one.document_id}
    # The passages of a book follow one another: each book is one block, in its order.
    book = next(one for one in context.citations if one.document_id == "bread")
    assert list(book.passage_ids) == sorted(book.passage_ids) == ["bread#0", "bread#1", "bread#2"]
    assert f"[{book.number}] Bread\nBread is baked of flour.\nThe bread rests" in context.text
    assert [(line.n_in, line.n_out) for line in answer.stages if line.stage == "context"] == [(5, 5)]

    again = here.ask("how is bread baked?", context_tokens=500, **asked)
    assert again.questions[0].context == context
    short = here.ask("how is bread baked?", context_tokens=20, **asked)
    small = short.questions[0].context
    assert small is not None
    assert not short.cached
    assert 0 < small.tokens <= 20
    assert small.left_out == 5 - sum(len(one.passage_ids) for one in small.citations)


def _index_two_books(here: OneProcess) -> None:
    books = {
        "bread": ("Bread is baked of flour.", "The bread rests for an hour.", "Bread is eaten with butter."),
        "tea": ("Tea is brewed of leaves.", "Nobody bakes tea."),
    }
    embedder, store = here.resources.embedder, here.resources.writing_store
    store.create("books", manifest_of(embedder))
    documents = []
    for name, texts in books.items():
        vectors = embedder.embed_passages(texts)
        passages = tuple(
            Passage(f"{name}#{place}", place, text, vector=vector)
            for place, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        )
        documents.append(Document(name, "tests", name.title(), passages, content_hash=name, revision=name))
    here.resources.generations.publish("books", store.upsert("books", documents))


def test_hits_are_cut_after_a_jump_in_their_scores(here: OneProcess) -> None:
    texts = {f"flat{place}": ("Flats", f"Flat {place} is let by the year.") for place in range(3)}
    texts |= {f"rates{place}": ("Rates", f"Table {place} of the rates of interest") for place in range(5)}
    here.index(texts, namespace="cuts")
    asked: dict[str, Any] = {"namespace": "cuts", "timeout_s": 20, "top_k": 8, "branches": ["bm25", "vector"]}
    question = "which flat is let by the year?"
    everything = here.ask(question, **asked)
    scores = [hit.score for hit in everything.hits]
    kept = hits_before_jump(scores, 1)
    assert 0 < kept < len(scores)
    answer = here.ask(question, autocut=1, **asked)
    assert (answer.status, ids(answer)) == ("complete", ids(everything)[:kept])
    assert answer.questions[0].removed == {"autocut": len(scores) - kept}
    assert [(line.n_in, line.n_out) for line in answer.stages if line.stage == "autocut"] == [
        (len(scores), kept)
    ]


def test_edited_copies_are_folded_and_named_and_the_page_is_full(here: OneProcess) -> None:
    chance = random.Random(5)
    words = [f"w{n}" for n in range(400)]
    texts = {f"d{n}": " ".join(["bread", *chance.sample(words, 100)]) for n in range(4)}
    edited = {"d0 again": texts["d0"].replace("bread", "old bread"), "d1 again": texts["d1"] + " and more"}
    texts_and_copies = texts | edited | {"d2 again": texts["d2"]}
    documents = [RawDocument(name, "tests", "Bread", text) for name, text in texts_and_copies.items()]
    index_corpus(here.resources, SourceDocuments(documents, "tests"), namespace="copies")
    answer = here.ask("bread", namespace="copies", timeout_s=20, top_k=4)
    assert sorted(document.split()[0] for document in ids(answer)) == sorted(texts)
    folded = {
        (*sorted((hit.document_id, one.document_id)), one.why) for hit in answer.hits for one in hit.folded
    }
    assert folded == {
        ("d0", "d0 again", "near_duplicate"),
        ("d1", "d1 again", "near_duplicate"),
        ("d2", "d2 again", "exact_copy"),
    }


def test_filters_that_nothing_meets_are_dropped_in_order_and_named(here: OneProcess) -> None:
    for shop in ("north", "south"):
        here.index({shop: ("Bread", f"Bread of {shop}")}, namespace="relaxed", shop=shop, year=2020)
    asked: dict[str, Any] = {"namespace": "relaxed", "timeout_s": 20}
    strict = {"shop": "south", "year": {"gte": 2024}, "kind": "cake"}
    answer = here.ask("bread", filters=strict, **asked)
    assert (answer.status, ids(answer), answer.questions[0].relaxed) == ("complete", [], ())

    answer = here.ask("bread", filters=strict, relax=["filters.kind", "filters.year"], **asked)
    # One branch after the other has dropped both; the shop was not theirs to drop.
    assert (answer.status, ids(answer)) == ("complete", ["south"])
    assert answer.questions[0].relaxed == ("filters.kind", "filters.year")
    answer = here.ask("bread", filters=strict, relax=["filters.kind"], **asked)
    assert (ids(answer), answer.questions[0].relaxed) == ([], ())

    # BM25 finds nothing for either question with the filter, and the vector does: nothing is dropped.
    answer = here.ask(
        ["ERR-4711", "bread"], filters={"shop": "south"}, relax=["filters.shop"], top_k=1, **asked
    )
    assert [[hit.document_id for hit in one.hits] for one in answer.questions] == [["south"], ["south"]]
    assert [one.relaxed for one in answer.questions] == [(), ()]

    thresholds: ThresholdOptions = {"min_branch_score": {"bm25": 99.0, "vector": 2.0, "hyde": 2.0}}
    options: dict[str, Any] = {"thresholds": thresholds, "relax": ["thresholds.min_branch_score"], **asked}
    answer = here.ask("bread", **options)
    assert (len(answer.hits), answer.questions[0].relaxed) == (2, ("thresholds.min_branch_score",))
    again = here.ask("bread", **options)
    assert again.questions[0].relaxed == ("thresholds.min_branch_score",)


def test_a_context_has_what_stands_around_the_hits(here: OneProcess) -> None:
    _index_two_books(here)
    asked: dict[str, Any] = {"namespace": "books", "timeout_s": 20, "top_k": 1, "branches": ["bm25"]}
    # The other passages of the book have none of these words.
    question = "how long does it rest?"
    alone = here.ask(question, context_tokens=200, **asked).questions[0]
    assert [hit.passage_id for hit in alone.hits] == ["bread#1"]
    assert alone.context is not None
    assert alone.context.text == "[1] Bread\nThe bread rests for an hour."
    for around in (1, "document"):
        answer = here.ask(question, context_tokens=200, context_around=around, **asked)
        context = answer.questions[0].context
        assert context is not None
        assert context.text == (
            "[1] Bread\nBread is baked of flour.\nThe bread rests for an hour.\nBread is eaten with butter."
        )
        assert context.tokens == here.resources.embedder.count_pieces(context.text)
        [citation] = context.citations
        assert (citation.ranks, citation.passage_ids) == ((1,), ("bread#0", "bread#1", "bread#2"))
    # There is room for the hit's own passage and one more.
    least = alone.context.tokens + here.resources.embedder.count_pieces("Bread is eaten with butter.\n")
    answer = here.ask(question, context_tokens=least, context_around="document", **asked)
    assert answer.questions[0].context == alone.context
