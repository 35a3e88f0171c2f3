"""The farm advisory's retrieval service: a question, domains, a threshold and a namespace, and texts with what made the answer.

Its golden suite through the whole pipeline stands in `tests/acceptance/installations/test_golden_suite.py`, Docker in
`tests/acceptance/deploy`, and a search of one's own in `test_agent_framework.py` beside this file.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from chorale_client import Answer, Request

from tests.support.pipelines.one_process import OneProcess

DOMAINS = {
    "animals": {
        "cows": ("Cows", "A cow drinks eighty litres of water on a day in summer."),
        "hens": ("Hens", "A hen lays an egg on most days if it has light and calcium."),
    },
    "crops": {
        "wheat": ("Wheat", "Wheat needs nitrogen in spring, and no water that stands in the field."),
        "vines": ("Vines", "Vines are pruned in winter, before the sap rises."),
    },
    "tax": {
        "vat": ("Tax", "A farm pays value added tax on the milk and the eggs that it sells."),
        "diesel": ("Diesel", "The tax on diesel for tractors is paid back on request."),
    },
}
QUESTION = "how much water does a cow need?"
EVERY = {name for documents in DOMAINS.values() for name in documents}


@pytest.fixture(scope="module", autouse=True)
def _documents(here: OneProcess) -> None:
    for domain, documents in DOMAINS.items():
        here.index(documents, namespace="farm", domain=domain)
    here.index({"forest": ("Forest", "A forest drinks the water of the rain.")}, namespace="forestry")


def retrieve(
    here: OneProcess,
    query: str = QUESTION,
    domains: list[str] | None = None,
    confidence_threshold: float | None = None,
    **options: Any,
) -> Answer:
    """The service's call, as a request."""
    if domains is not None:
        options["filters"] = {"domain": domains}
    if confidence_threshold is not None:
        options |= {
            "branches": ["vector"],
            "thresholds": {"min_branch_score": {"vector": confidence_threshold}},
        }
    include = ["ids", "metadata", "texts", "explanation"]
    return here.ask(query, **{"namespace": "farm", "include": include, "cache": "bypass", **options})


def ids(answer: Answer) -> list[str]:
    return [one.document_id for one in answer.hits]


def test_a_query_is_embedded_searched_and_its_texts_fetched_in_its_namespace(here: OneProcess) -> None:
    before = datetime.now(UTC)
    answer = retrieve(here)
    stages = [line.stage for line in answer.stages]
    assert stages.index("embed") < stages.index("search.vector") < stages.index("fetch")
    best = answer.hits[0]
    title, text = DOMAINS["animals"]["cows"]
    assert (best.passage_id, best.document_id, best.title, best.text) == ("cows#0", "cows", title, text)
    assert (best.score > 0, best.metadata) == (True, {"domain": "animals"})
    question = answer.questions[0]
    assert (answer.namespace, answer.configuration, answer.method) == ("farm", "rrf", "rrf")
    assert (question.text, question.total_matches) == (QUESTION, len(EVERY))
    # The clock of Redis is this machine's, in whole milliseconds.
    assert timedelta(milliseconds=-1) <= datetime.fromisoformat(answer.ended_at) - before
    assert [len(each.hits) for each in (answer, retrieve(here, top_k=2))] == [5, 2]
    assert ids(retrieve(here, namespace="forestry")) == ["forest"]


def test_without_an_embedder_words_answer_and_the_answer_names_what_is_missing(here: OneProcess) -> None:
    settings = {"CHORALE_EMBEDDER": "/no/such/model", "CHORALE_HOME": str(here.home)}
    with OneProcess(here.server, environment=settings) as without:
        answer = retrieve(without)
        alone = retrieve(without, branches=["vector"])
    assert (answer.status, ids(answer)[0]) == ("degraded", "cows")
    missing = {part.where: part.reason for part in answer.degraded}
    assert missing["search.vector"] == "model_missing"
    assert (alone.status, alone.hits) == ("failed", ())


def test_only_documents_of_the_domains_or_without_any_of_all_are_found_in_one_ranking(
    here: OneProcess,
) -> None:
    every_domain: tuple[list[str] | None, ...] = (None, [])
    for domains in every_domain:
        every = retrieve(here, domains=domains, top_k=10)
        assert (set(ids(every)), every.warnings) == (EVERY, ())
    answer = retrieve(here, domains=["animals", "tax"])
    assert set(ids(answer)) == {"cows", "hens", "vat", "diesel"}
    scores = [one.score for one in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert {one.metadata["domain"] for one in answer.hits} == {"animals", "tax"}


def test_matches_below_the_threshold_are_removed_after_the_search(here: OneProcess) -> None:
    """The threshold lies between the second and the third score."""
    every = [one.branches["vector"].score for one in retrieve(here, branches=["vector"], top_k=10).hits]
    assert len(every) == len(EVERY), "no threshold by default"
    assert every[1] is not None
    assert every[2] is not None
    answer = retrieve(here, confidence_threshold=(every[1] + every[2]) / 2, top_k=10)
    question = answer.questions[0]
    assert [one.branches["vector"].score for one in question.hits] == every[:2]
    assert question.removed == {"min_branch_score": len(EVERY) - 2}


def test_an_index_that_is_not_there_is_a_clear_error_and_the_log_has_the_id_of_the_caller(
    here: OneProcess,
) -> None:
    with structlog.testing.capture_logs() as logs:
        answer = retrieve(here, namespace="nowhere", correlation_id="visit-12")
    assert answer.degraded[0].detail.startswith("there is no namespace 'nowhere'")
    stages = [line for line in logs if line["event"] == "stage"]
    assert {(line["status"], line["reason"]) for line in stages} == {("failed", "bad_index")}
    assert {line["correlation_id"] for line in stages} == {"visit-12"}


def test_a_request_says_what_it_takes_and_an_unknown_field_is_an_error() -> None:
    query = Request(questions=(QUESTION,), filters={"domain": ["animals"]})
    assert (query.top_k, query.namespace, query.thresholds) == (5, "default", None)
    with pytest.raises(ValueError, match="domains"):
        Request(questions=(QUESTION,), domains=["animals"])  # type: ignore[call-arg]
