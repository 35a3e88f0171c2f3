"""Declarations with Cypher: what may be done follows from the statement, and a wrong statement is refused with its line."""

from __future__ import annotations

import pytest

from models.errors import WrongDeclaration
from tests.support.pipelines.pipeline_files import LOCAL, Declares, branch

GRAPH = '[stores.cites]\nkind = "graph"\noptions = { documents = "local", links = { CITES = "cites" } }\n'
NEO4J = '[stores.neo]\nkind = "neo4j"\noptions = { url = "bolt://127.0.0.1:7687"%s }\n'
WIKI = (
    '[stores.wiki]\nkind = "http"\n[stores.wiki.options]\nurl = "http://w.example"\nid = "id"\nmethod = "POST"\n'
    "%sbody = { statement = '%s', parameters = { question = \"{question}\" } }\n"
)
READS = "MATCH (a) WHERE a.ns = $namespace RETURN a.id AS id"
WRITES = "MATCH (a) WHERE a.ns = $namespace SET a.asked = true RETURN a.id AS id"


def graph_branch(store: str, statement: str) -> str:
    return branch(
        "graph", "graph", store=store, more=f"[branches.graph.options]\ncypher = '''{statement}'''\n"
    )


@pytest.mark.parametrize(
    ("text", "capabilities"),
    [
        (LOCAL + GRAPH + graph_branch("cites", READS), ("db.local:read", "db.local:write", "db.cites:read")),
        (NEO4J % "" + graph_branch("neo", READS), ("db.neo:read",)),
        (NEO4J % ", allow_write = true" + graph_branch("neo", READS), ("db.neo:read",)),
        (NEO4J % ", allow_write = true" + graph_branch("neo", WRITES), ("db.neo:read", "db.neo:write")),
        (WIKI % ("", READS) + branch("wiki", kind="http", store="wiki"), ("db.wiki:read",)),
        (
            WIKI % ("allow_write = true\n", WRITES) + branch("wiki", kind="http", store="wiki"),
            ("db.wiki:read", "db.wiki:write"),
        ),
    ],
)
def test_what_may_be_done_with_a_store_follows_from_its_statements(
    text: str, capabilities: tuple[str, ...], declares: Declares
) -> None:
    assert declares(text).capabilities == capabilities


SENT = (
    "url = 'http://w.example/?q={question}&sql=DELETE+FROM+notes'\n",
    'url = \'http://w.example\'\nparams = { q = "{question}", sql = "DELETE FROM notes" }\n',
    'url = \'http://w.example\'\nmethod = "POST"\nbody = { q = "{question}", run = ["DELETE FROM notes"] }\n',
)


@pytest.mark.parametrize("sent", SENT, ids=["url", "params", "body"])
def test_an_endpoint_to_which_a_keyword_of_sql_is_sent_is_written_and_needs_leave(
    sent: str, declares: Declares
) -> None:
    text = f'[stores.notes]\nkind = "http"\n[stores.notes.options]\nid = "id"\n{sent}'
    notes_branch = branch("notes", kind="http", store="notes")
    with pytest.raises(WrongDeclaration, match=r"the statement writes \(DELETE\): .*allow_write = true"):
        declares(text + notes_branch)
    assert declares(f"{text}allow_write = true\n{notes_branch}").capabilities == (
        "db.notes:read",
        "db.notes:write",
    )


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        (LOCAL + GRAPH + graph_branch("cites", WRITES), "cypher", "the statement writes (SET): a graph of documents is only read"),
        (NEO4J % "" + graph_branch("neo", WRITES), "cypher", "the statement writes (SET): the store is only read unless it says allow_write"),
        (NEO4J % "" + graph_branch("neo", "MATCH (a) RETURN a.id AS id"), "cypher", "the statement must name $namespace"),
        (NEO4J % "" + graph_branch("neo", READS + " // $user\nORDER BY $user"), "cypher", "no parameter $user; there are: question,"),
        (LOCAL + graph_branch("local", READS), "cypher", "a store of kind 'embedded' runs no Cypher; there are: graph, neo4j"),
        (WIKI % ("", WRITES) + branch("wiki", kind="http", store="wiki"), "[stores.wiki.options]", "the statement writes (SET)"),
        (
            WIKI % ("", READS.replace("$namespace", '"{question}"')) + branch("wiki", kind="http", store="wiki"),
            "[stores.wiki.options]",
            "no {question} in its text",
        ),
        (
            LOCAL + GRAPH.replace('"local"', '"cites"') + graph_branch("cites", READS),
            "options = { documents",
            "no store with documents 'cites'; there are: local",
        ),
        (LOCAL + GRAPH.replace("CITES =", '"A]-(x) " =') + graph_branch("cites", READS), "options = { documents", "pattern"),
    ],
)  # fmt: skip
def test_a_wrong_statement_or_graph_is_refused_with_its_line(
    text: str, key: str, words: str, declares: Declares
) -> None:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(key))
    with pytest.raises(WrongDeclaration) as refused:
        declares(text)
    assert f"pipeline.toml:{line}: " in str(refused.value)
    assert words in str(refused.value)


def test_a_whole_graph_for_named_namespaces_needs_no_namespace_in_its_statement(declares: Declares) -> None:
    declares(NEO4J % ', namespaces = ["default"]' + graph_branch("neo", "MATCH (a) RETURN a.id AS id"))
