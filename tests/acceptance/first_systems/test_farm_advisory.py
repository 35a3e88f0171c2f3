"""The farm advisory's retrieval service: a question, domains, a threshold and a namespace, and texts with what made the answer.

Its golden suite through the whole pipeline stands in `tests/acceptance/installations/test_golden_suite.py`, and Docker in
`tests/acceptance/deploy`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from chorale_client import Answer, Request

from evaluation.judged.golden import read_golden
from models.extensions import BranchKind, Kinds
from models.hits import Hit, Ranking
from tasks.branches.branch_task import BranchTask
from tasks.wiring.pipeline import BUILT_IN
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.http_api import HttpApi

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
GOLDEN_QUESTIONS = Path(__file__).parents[1] / "installations" / "golden_suite" / "questions.yaml"
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


def test_a_query_is_embedded_searched_and_its_texts_fetched(here: OneProcess) -> None:
    answer = retrieve(here, branches=["vector"])
    stages = [line.stage for line in answer.stages]
    assert [stages.index(name) for name in ("embed", "search.vector", "fetch")] == sorted(
        stages.index(name) for name in ("embed", "search.vector", "fetch")
    )
    assert answer.hits[0].document_id == "cows"


def test_without_an_embedder_words_answer_and_the_answer_names_what_is_missing(here: OneProcess) -> None:
    settings = {"CHORALE_EMBEDDER": "/no/such/model", "CHORALE_HOME": str(here.home)}
    with OneProcess(here.server, environment=settings) as without:
        answer = retrieve(without)
        alone = retrieve(without, branches=["vector"])
    assert (answer.status, ids(answer)[0]) == ("degraded", "cows")
    missing = {part.where: part.reason for part in answer.degraded}
    assert missing["search.vector"] == "model_missing"
    assert (alone.status, alone.hits) == ("failed", ())


def test_only_documents_of_the_domains_are_found_in_one_ranking_by_score(here: OneProcess) -> None:
    answer = retrieve(here, domains=["animals", "tax"])
    assert set(ids(answer)) == {"cows", "hens", "vat", "diesel"}
    scores = [one.score for one in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert {one.metadata["domain"] for one in answer.hits} == {"animals", "tax"}


@pytest.mark.parametrize("domains", [None, []])
def test_no_domains_mean_all_of_them(here: OneProcess, domains: list[str] | None) -> None:
    answer = retrieve(here, domains=domains, top_k=10)
    assert (set(ids(answer)), answer.warnings) == (EVERY, ())


def test_a_domain_that_no_document_has_is_a_warning(here: OneProcess) -> None:
    answer = retrieve(here, domains=["anmials"])
    assert (answer.status, answer.hits) == ("complete", ())
    assert answer.warnings == (
        'filter \'domain\': no document that may be found meets {"domain":["anmials"]}',
    )


def test_five_documents_are_returned_unless_the_query_says_otherwise(here: OneProcess) -> None:
    assert [len(answer.hits) for answer in (retrieve(here), retrieve(here, top_k=2))] == [5, 2]


def test_a_namespace_is_searched_alone(here: OneProcess) -> None:
    assert ids(retrieve(here, namespace="forestry")) == ["forest"]


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


def test_a_match_has_id_content_score_and_metadata(here: OneProcess) -> None:
    best = retrieve(here).hits[0]
    title, text = DOMAINS["animals"]["cows"]
    assert (best.passage_id, best.document_id, best.title, best.text) == ("cows#0", "cows", title, text)
    assert best.score > 0
    assert best.metadata == {"domain": "animals"}


def test_the_result_names_query_namespace_total_configuration_method_and_moment(here: OneProcess) -> None:
    before = datetime.now(UTC)
    answer = retrieve(here, configuration="scores")
    assert (answer.namespace, answer.configuration, answer.method) == ("farm", "scores", "dbsf")
    question = answer.questions[0]
    assert question.text == QUESTION
    assert question.total_matches == len(EVERY)
    # The clock of Redis is this machine's, in whole milliseconds.
    assert timedelta(milliseconds=-1) <= datetime.fromisoformat(answer.ended_at) - before
    failed = retrieve(here, namespace="nowhere")
    assert (failed.namespace, bool(failed.ended_at)) == ("nowhere", True)


def test_a_result_from_the_cache_names_its_query_too(here: OneProcess) -> None:
    first, second = (retrieve(here, "how often does a hen lay?", cache="use") for _ in range(2))
    assert (first.cached, second.cached) == (False, True)
    assert second.questions[0].text == "how often does a hen lay?"
    assert (second.configuration, second.method) == ("rrf", "rrf")


def test_an_empty_query_is_answered_at_once_with_nothing(here: OneProcess) -> None:
    answer = retrieve(here, "  ")
    assert (answer.status, answer.hits) == ("skipped", ())
    assert not [line for line in answer.stages if line.stage.startswith("search")]


@pytest.mark.usefixtures("served_url")
def test_an_index_that_is_not_there_is_a_clear_error(here: OneProcess) -> None:
    [part, *_] = here.client().retrieve(QUESTION, namespace="nosuch", timeout_s=30).degraded
    assert part.detail.startswith("there is no namespace 'nosuch'")
    with HttpApi(here.resources.settings) as api, api.client() as client:
        body = {"namespace": "nosuch", "questions": [QUESTION], "timeout_s": 30}
        found = client.post("/v1/searches", json=body)
    assert (found.status_code, found.json()["field"]) == (404, "namespace")
    assert found.json()["detail"].startswith("there is no namespace 'nosuch'")


def test_a_passage_that_is_not_there_is_skipped_with_a_warning_and_the_next_one_comes(
    here: OneProcess,
) -> None:
    documents = {f"hay{place}": ("Hay", f"Hay of the {place}. cut") for place in range(4)}
    here.index(documents, namespace="barn")
    options: dict[str, Any] = {"namespace": "barn", "branches": ["vector"], "top_k": 3, "cache": "bypass"}
    best = ids(retrieve(here, "hay", **options))[0]
    request_id = here.submit("hay", **options)
    here.work("chorale.vector")
    here.resources.writing_store.delete("barn", [best])
    with structlog.testing.capture_logs() as logs:
        here.work()
    answer = here.answer(request_id)
    assert (answer.status, set(ids(answer))) == ("complete", documents.keys() - {best})
    text = f"document_missing: no text in the store for {best}#0; their hits are left out"
    assert answer.warnings == (text,)
    assert [line["passages"] for line in logs if line["event"] == "passages gone"] == [[f"{best}#0"]]


def test_what_is_searched_may_be_ones_own(here: OneProcess, tmp_path: Path) -> None:
    def search(part: BranchTask) -> list[Ranking]:
        return [Ranking((Hit("note#0", "note", 1.0),)) for _ in part.questions]

    file = tmp_path / "pipeline.toml"
    file.write_text(LOCAL + branch("notebook"))
    kinds = BUILT_IN | Kinds(branches={"notebook": BranchKind(search)})
    settings = {"CHORALE_HOME": str(here.home)}
    with OneProcess(here.server, pipeline_file=file, kinds=kinds, environment=settings) as own:
        own.index({"note": ("Note", "The cows were moved on Monday.")}, namespace="farm-notes")
        answer = retrieve(own, "what is new?", namespace="farm-notes")
    assert [(one.document_id, one.found_by) for one in answer.hits] == [("note", ("notebook",))]


def test_the_log_has_the_id_of_the_caller(here: OneProcess) -> None:
    with structlog.testing.capture_logs() as logs:
        retrieve(here, namespace="nowhere", correlation_id="visit-12")
    stages = [line for line in logs if line["event"] == "stage"]
    assert stages
    assert {line["correlation_id"] for line in stages} == {"visit-12"}


def test_the_golden_suite_has_ten_samples_and_more_and_ones_own_may_be_yaml_or_json_lines(
    tmp_path: Path,
) -> None:
    assert len(read_golden(GOLDEN_QUESTIONS)) >= 10
    own = {"question": QUESTION, "expected": "cows"}
    (tmp_path / "own.jsonl").write_text(json.dumps(own))
    (tmp_path / "own.yaml").write_text(f"- {json.dumps(own)}\n")
    both = [read_golden(tmp_path / name)[0] for name in ("own.jsonl", "own.yaml")]
    assert [(one.text, dict(one.expected)) for one in both] == [(QUESTION, {"cows": 1})] * 2


def test_a_request_says_what_it_takes_and_an_unknown_field_is_an_error() -> None:
    query = Request(questions=(QUESTION,), filters={"domain": ["animals"]})
    assert (query.top_k, query.namespace, query.thresholds) == (5, "default", None)
    with pytest.raises(ValueError, match="domains"):
        Request(questions=(QUESTION,), domains=["animals"])  # type: ignore[call-arg]
