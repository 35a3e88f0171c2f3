"""A branch of kind `graph` over the indexed documents: what it finds, and what its statement may see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client import Answer

from tests.contracts.cypher import ENDLESS
from tests.integration.tasks.answers import ids, reasons
from tests.support.faults.serving import nobody_has_ended
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.redis_server import RedisServer

GRAPH = """
[stores.citations]
kind = "graph"
options = { documents = "local", links = { CITES = "cites", ABOUT = "topics" } }
"""
CITED = """
MATCH path = (named:Document)-[:CITES*1..2]->(cited:Document)
WHERE named.title IN $entities
  AND all(node IN nodes(path) WHERE $filter_owner IS NULL OR node.owner IN $filter_owner)
RETURN cited.id AS id, 1.0 / length(path) AS nearness
ORDER BY nearness
"""
SAME_TOPIC = """
MATCH (named:Document)-[:ABOUT]->(:Entity)<-[:ABOUT]-(other:Document)
WHERE $question CONTAINS named.title RETURN other.id AS id ORDER BY id LIMIT $limit
"""
DOUBLING = "MATCH (a) RETURN a.id + reduce(text = 'a', x IN range(1, 40) | text + text) AS id"
QUESTION = "What does the Parking Rule rest on?"
CORPUS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "rules/parking": (
        "Parking Rule",
        "Cars stand in the yard at night.",
        {"owner": "city", "cites": ["Fire Code", "statutes/9"], "topics": "yards"},
    ),
    "codes/fire": ("Fire Code", "Ladders need four metres.", {"owner": "city", "cites": "9", "topics": ["ladders"]}),
    "statutes/9": ("Statute Nine", "Brigades are paid by taxes.", {"owner": "state"}),
    "rules/bins": ("Bin Rule", "Bins are emptied on Mondays.", {"owner": "city", "topics": ["Yards", "bins"]}),
}  # fmt: skip


@pytest.fixture(scope="module")
def pipeline_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("graph") / "pipeline.toml"
    branches = [
        branch("bm25"),
        branch("cited", "graph", kind="graph", store="citations", more=_options(CITED, score="nearness")),
        branch("same_topic", "graph", kind="graph", store="citations", more=_options(SAME_TOPIC)),
        branch(
            "wrong", "graph", kind="graph", store="citations", more=_options("MATCH (a)\nRETURN a.id b c")
        ),
        branch("endless", "graph", kind="graph", store="citations", more=_options(ENDLESS)),
        branch("doubling", "graph", kind="graph", store="citations", more=_options(DOUBLING)),
        branch(
            "nameless", "graph", kind="graph", store="citations", more=_options("MATCH (a) RETURN a.title")
        ),
    ]
    file.write_text(LOCAL + GRAPH + "".join(branches))
    return file


@pytest.fixture(scope="module")
def graph(pipeline_file: Path) -> Iterator[OneProcess]:
    with RedisServer() as server, OneProcess(server, pipeline_file=pipeline_file) as here:
        for name, (title, text, metadata) in CORPUS.items():
            here.index({name: (title, text)}, **metadata)
        yield here


def _options(statement: str, *, score: str | None = None) -> str:
    named = f', score = "{score}"' if score else ""
    return f"options = {{ cypher = '''{statement}'''{named} }}"


def ask(here: OneProcess, *branches: str, text: Any = QUESTION, **options: Any) -> Answer:
    return here.ask(text, branches=list(branches), **{"cache": "bypass", **options})


def test_a_cited_document_that_shares_no_word_with_the_question_is_found_by_the_graph_alone(
    graph: OneProcess,
) -> None:
    assert "statutes/9" not in ids(ask(graph, "bm25"))
    answer = ask(graph, "bm25", "cited", include=["explanation", "metadata", "texts"])
    assert (answer.status, answer.warnings) == ("complete", ())
    by_id = {hit.document_id: hit for hit in answer.hits}
    assert list(by_id["statutes/9"].found_by) == ["cited"]
    assert by_id["statutes/9"].text == "Brigades are paid by taxes."


def test_rows_rank_by_the_score_column_and_a_document_counts_once(graph: OneProcess) -> None:
    answer = ask(graph, "cited", include=["explanation"])
    # Both are cited directly, and the statute also by the code, at distance two.
    assert sorted(ids(answer)) == ["codes/fire", "statutes/9"]
    assert [hit.branches["cited"].score for hit in answer.hits] == [1.0, 1.0]


def test_documents_that_name_the_same_entity_are_two_steps_apart(graph: OneProcess) -> None:
    assert ids(ask(graph, "same_topic")) == ["rules/bins"]


def test_a_question_in_lower_case_names_what_the_graph_knows(graph: OneProcess) -> None:
    assert sorted(ids(ask(graph, "cited", text="what does the parking  rule rest on?"))) == [
        "codes/fire",
        "statutes/9",
    ]


def test_the_callers_entities_replace_those_of_the_text(graph: OneProcess) -> None:
    question = {"text": "What is behind it?", "variants": [{"kind": "entity", "text": "Fire Code"}]}
    answer = ask(graph, "cited", text=question)
    assert (ids(answer), answer.warnings) == (["statutes/9"], ())


@pytest.mark.parametrize(
    "text",
    [
        "' OR true //",
        '"}) MATCH (x) DETACH DELETE x //"',
        "`}) RETURN 1 UNION MATCH (x:Document) RETURN x.id AS id //",
        "$question \\u0027 {} [] \\",
        "\"x\nMATCH (y) DETACH DELETE y\r\nRETURN 1 AS id\" 'UNION CALL { MATCH (z) SET z.x = 1 }'",
    ],
)
def test_cypher_in_a_question_an_entity_or_a_filter_is_a_value_and_nothing_else(
    graph: OneProcess, text: str
) -> None:
    question = {"text": text, "variants": [{"kind": "entity", "text": text}]}
    answer = ask(graph, "cited", "same_topic", text=question)
    assert (answer.status, ids(answer)) == ("complete", [])
    answer = ask(graph, "cited", filters={"owner": text})
    assert (answer.status, ids(answer)) == ("complete", [])
    assert sorted(ids(ask(graph, "cited"))) == ["codes/fire", "statutes/9"], "the graph is as it was"


def test_a_callers_filter_holds_for_hits_of_the_graph(graph: OneProcess) -> None:
    assert ids(ask(graph, "cited", filters={"owner": "state"})) == []
    assert ids(ask(graph, "cited", filters={"owner": "city"})) == ["codes/fire"]
    assert ids(ask(graph, "same_topic", filters={"owner": {"not": "city"}})) == []
    assert ids(ask(graph, "cited", exclude_ids=["codes/fire"])) == ["statutes/9"]


def test_a_keys_filter_binds_the_paths(graph: OneProcess) -> None:
    answer = ask(graph, "cited", request_id="t.city.1", filters={"owner": {"all": ["city"]}})
    assert ids(answer) == ["codes/fire"]


@pytest.mark.parametrize(
    ("name", "filters"),
    [
        ("same_topic", {"owner": {"all": ["city"]}}),
        ("cited", {"owner": {"all": [{"contains": "ci"}]}}),
        ("cited", {"owner": {"all": ["city"]}, "team": {"all": ["a"]}}),
    ],
)
def test_a_branch_that_does_not_bind_a_keys_filter_is_refused(
    graph: OneProcess, name: str, filters: dict[str, Any]
) -> None:
    answer = ask(graph, name, request_id=f"t.city.{name}-{len(str(filters))}", filters=filters)
    assert (answer.status, reasons(answer), ids(answer)) == (
        "failed",
        [(f"search.{name}", "not_configured")],
        [],
    )


@pytest.mark.parametrize(
    ("name", "reason", "detail", "timeout_s"),
    [
        ("wrong", "not_configured", "line 2, col 13", 30),
        ("nameless", "invalid_answer", "there are: a.title", 30),
        ("endless", "timeout", "", 3),
    ],
)
def test_a_statement_that_is_wrong_or_takes_too_long_costs_its_branch_alone_and_says_why(
    graph: OneProcess, name: str, reason: str, detail: str, timeout_s: float
) -> None:
    answer = ask(graph, "bm25", name, timeout_s=timeout_s)
    assert (answer.status, reasons(answer)) == ("degraded", [(f"search.{name}", reason)])
    assert detail in str(answer.degraded[0].detail)


def test_a_statement_that_takes_too_much_memory_costs_its_branch_alone_and_says_so(graph: OneProcess) -> None:
    answer = ask(graph, "cited", "doubling", timeout_s=30)
    assert (answer.status, reasons(answer)) == ("degraded", [("search.doubling", "error")])
    assert "needs more than 256 MB of memory" in str(answer.degraded[0].detail)
    assert sorted(ids(answer)) == sorted(ids(ask(graph, "cited"))) == ["codes/fire", "statutes/9"]


@pytest.mark.slow
def test_a_worker_outlives_a_statement_over_150_documents_that_takes_too_much_memory_or_time(
    pipeline_file: Path,
) -> None:
    with (
        RedisServer() as server,
        RunningPipeline(
            server, pipeline_file=pipeline_file, alone=["chorale.endless"], sweeper=True
        ) as running,
    ):
        running.index(
            {f"rules/{number}": (f"Rule {number}", "Cars stand in the yard.") for number in range(150)}
        )
        running.wait_ready()
        client = running.client()
        for name, reason in (("doubling", "error"), ("endless", "timeout")):
            answer = client.retrieve("Cars in the yard", branches=["bm25", name], timeout_s=8)
            assert (answer.status, reasons(answer)) == ("degraded", [(f"search.{name}", reason)])
            assert answer.hits
        answer = client.retrieve("Cars in the yard", branches=["bm25", "same_topic"], timeout_s=20)
        assert (answer.status, answer.degraded) == ("complete", ())
        nobody_has_ended(running)


def test_a_changed_document_is_in_the_next_answer_and_another_namespace_never(graph: OneProcess) -> None:
    text = "What does the Bin Rule rest on?"
    assert ids(ask(graph, "cited", text=text)) == []
    graph.index({"rules/bins": ("Bin Rule", "Bins.")}, owner="city", cites="Statute Nine", topics="Yards")
    assert ids(ask(graph, "cited", text=text)) == ["statutes/9"]
    graph.index({"foreign": ("Bin Rule", "Elsewhere.")}, namespace="other", cites="Statute Nine")
    assert ids(ask(graph, "cited", text=text, namespace="other")) == []
