"""The legal assistant's parallel retrieval step: BM25, vectors and HyDE, fused with the authority of Italian sources.

The node in a graph with workers stands in `tests/acceptance/adapters`; what answers cost and find, in `docs/evidence`.
"""

from __future__ import annotations

import json
from math import prod
from typing import Any

import pytest
import structlog
from chorale_client import Answer
from chorale_client.adapters.langgraph import retrieval_node

from examples.langgraph_steps import build_graph
from tasks.request.composing import compose
from tests.support.pipelines.one_process import OneProcess

GERARCHIA_FONTI = {
    "legge": 1.30, "decreto": 1.25, "circolare": 1.15, "risoluzione": 1.10, "interpello": 1.05, "faq": 1.00, "guida": 0.95,
}  # fmt: skip
QUESTION = "quanto dura il canone di locazione?"
TODAY = "2026-11-24T12:00:00+00:00"
OLD, YEAR_OLD, DAY_OLDER = "2019-01-01", "2025-11-24", "2025-11-23"
EXPLAINED: dict[str, Any] = {"namespace": "law", "include": ["ids", "metadata", "explanation"], "now": TODAY}


@pytest.fixture(scope="module", autouse=True)
def _documents(here: OneProcess) -> None:
    """One document of each source type, whose texts differ in one word, and three of other kinds."""
    kinds = [*GERARCHIA_FONTI, "Legge", "leggge"]
    for kind in kinds:
        text = f"Il canone di locazione secondo {kind} dura quattro anni."
        here.index({kind: ("Canone", text)}, namespace="law", source_type=kind, published_at=OLD)
    for date in (YEAR_OLD, DAY_OLDER):
        text = f"La caparra del {date} si restituisce entro un mese."
        here.index({date: ("Caparra", text)}, namespace="law", source_type="legge", published_at=date)
    here.index({"bread": ("Bread", "Bread is baked from flour and water.")}, namespace="law")
    here.index({"repairs": ("Repairs", "The landlord pays for repairs of the flat.")}, namespace="docs")


def law(here: OneProcess, question: str = QUESTION, **options: Any) -> Answer:
    return here.ask(question, top_k=10, **{**EXPLAINED, "configuration": "italian-law", **options})


def test_a_score_is_the_sum_of_weight_over_60_plus_rank_with_weights_3_4_3(here: OneProcess) -> None:
    answer = here.ask(QUESTION, **EXPLAINED)
    weights = {"bm25": 0.3, "vector": 0.4, "hyde": 0.3}
    assert {name for one in answer.hits for name in one.branches} == weights.keys()
    for one in answer.hits:
        by_hand = sum(weights[name] / (60 + branch.rank) for name, branch in one.branches.items())
        assert one.score == pytest.approx(by_hand)


def test_each_source_type_has_its_factor_with_or_without_a_capital(here: OneProcess) -> None:
    answer = law(here)
    factors = {one.source_type: one.boosts.get("authority", 1.0) for one in answer.hits}
    assert {kind: factors[kind] for kind in GERARCHIA_FONTI} == GERARCHIA_FONTI
    assert factors["Legge"] == 1.30


def test_a_source_type_that_no_table_knows_is_logged_once(here: OneProcess) -> None:
    compose._warn_of_type.cache_clear()
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            assert "leggge" in {one.source_type for one in law(here, cache="bypass").hits}
    lines = [line for line in logs if line["event"] == "source type without authority"]
    assert [(line["source_type"], line["log_level"]) for line in lines] == [("leggge", "warning")]
    assert "legge" in lines[0]["known"]


def test_a_law_stands_before_a_decree_a_circular_and_an_faq_of_the_same_text_rank(here: OneProcess) -> None:
    """1.30 / 64 > 1.25 / 63 > 1.15 / 62 > 1.00 / 61, so the last by text becomes the first."""
    by_text = ["faq", "circolare", "decreto", "legge"]
    for place, kind in enumerate(by_text):
        text = "La mora decorre dal giorno successivo. " + "Segue altro testo. " * 5 * place
        here.index({kind: ("Mora", text)}, namespace="mora", source_type=kind, published_at=OLD)
    answer = law(here, "mora", namespace="mora", branches=["bm25"])
    ranks = {one.document_id: one.branches["bm25"].rank for one in answer.hits}
    assert ranks == {kind: rank for rank, kind in enumerate(by_text, start=1)}
    assert [one.document_id for one in answer.hits] == list(reversed(by_text))


def test_twelve_months_are_months_of_the_calendar_and_multiply_with_the_authority(here: OneProcess) -> None:
    answer = law(here, "entro quando si restituisce la caparra?")
    boosts = {one.published_at: one.boosts for one in answer.hits if one.published_at != OLD}
    assert boosts == {YEAR_OLD: {"authority": 1.3, "recency": 1.5}, DAY_OLDER: {"authority": 1.3}}
    for one in answer.hits:
        earned = sum(branch.contribution for branch in one.branches.values())
        assert one.score == pytest.approx(earned * prod(one.boosts.values()))


def test_the_preset_has_a_variant_on_scores(here: OneProcess) -> None:
    answer = law(here, configuration="italian-law-scores")
    assert (answer.method, answer.status) == ("dbsf", "complete")
    assert {one.boosts.get("authority") for one in answer.hits} >= {1.3, 1.25}


def patient(**options: Any) -> Any:
    return {"namespace": "law", "timeout_s": 30, "cache": "bypass", **options}


def result_of(node: Any, state: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The ids of the documents, and the coverage."""
    result = node.invoke(state)["retrieval_result"]
    return [one["document_id"] for one in result["documents"]], result["coverage"]


def test_the_step_is_skipped_without_a_question_and_if_the_routing_decision_needs_no_retrieval(
    served_url: str,
) -> None:
    node = retrieval_node(served_url, options=patient())
    ids, coverage = result_of(node, {"question": QUESTION, "routing_decision": {"needs_retrieval": False}})
    assert (ids, coverage["status"]) == ([], "skipped")
    ids, _ = result_of(node, {"question": QUESTION, "routing_decision": {"needs_retrieval": True}})
    assert ids
    ids, coverage = result_of(node, {})
    assert (ids, coverage["status"]) == ([], "skipped")


def test_a_question_of_a_function_that_fails_leaves_an_empty_result_too(served_url: str) -> None:
    node = retrieval_node(served_url, question=lambda state: state["messages"][-1])
    ids, coverage = result_of(node, {"messages": []})
    assert (ids, coverage["missing"][0]["detail"]) == ([], "IndexError: list index out of range")


def test_query_variants_and_a_hypothetical_document_are_read_from_a_dict(served_url: str) -> None:
    """The question alone finds the document about bread, and its variant the two about deposits."""
    state = {"question": "flour", "query_variants": {"bm25_query": "caparra", "confidence": 0.9}}
    options = patient(branches=["bm25"])
    alone, _ = result_of(retrieval_node(served_url, options=options), {"question": "flour"})
    assert alone == ["bread"]
    beside, _ = result_of(retrieval_node(served_url, options=options), state)
    assert set(beside) == {"bread", YEAR_OLD, DAY_OLDER}
    instead, _ = result_of(retrieval_node(served_url, options=options, replace=True), state)
    assert set(instead) == {YEAR_OLD, DAY_OLDER}
    written = {"hypothetical_document": "Flour and water are baked to a bread.", "model": "llm"}
    node = retrieval_node(served_url, options=patient(branches=["hyde"]))
    assert result_of(node, {"question": "what?", "hyde_result": written})[0][0] == "bread"


def test_a_graph_classifies_expands_and_retrieves_a_result_of_plain_json(served_url: str) -> None:
    graph = build_graph(served_url)
    result = graph.invoke({"question": "Who pays for repairs?"})["retrieval_result"]
    assert [one["document_id"] for one in result["documents"]] == ["repairs"]
    assert result["coverage"]["status"] == "complete"
    assert json.loads(json.dumps(result)) == result
    state = graph.invoke({"question": "Thank you."})
    assert state["retrieval_result"]["coverage"]["status"] == "skipped"


def test_hyde_writes_its_hypothesis_without_a_language_model(here: OneProcess) -> None:
    """By default the best passages of BM25 move the question's vector."""
    answer = here.ask(QUESTION, branches=["hyde"], **EXPLAINED)
    assert "hypothesis" in {line.stage for line in answer.stages}
    assert answer.hits[0].found_by == ("hyde",)
