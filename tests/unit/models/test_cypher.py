"""What a Cypher statement tells without a database: whether it writes, and which parameters it names."""

from __future__ import annotations

import pytest

from models.declarations.cypher import parameters, statements, unknown_parameters, writing_word


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("MATCH (a) MERGE (b)", "MERGE"),
        ("match (a) set a.seen = true", "set"),
        ("MATCH (a)\n// all of them\nDETACH DELETE a", "DETACH"),
        ("CREATE(:Page)", "CREATE"),
        ("INSERT (:Page)", "INSERT"),
        ("MATCH (a) REMOVE a.seen", "REMOVE"),
        ("DROP INDEX pages", "DROP"),
        # It reads files and addresses of the server, which a parameter could name.
        ("LOAD CSV FROM $question AS row RETURN row[0] AS id", "LOAD"),
        ("MATCH (a) CALL { WITH a DELETE a } RETURN 1", "DELETE"),
        ("CALL apoc.create.node(['Page'], {}) YIELD node RETURN node", "CALL apoc.create.node"),
        ("CALL apoc . `create` /* x */ .node()", "CALL apoc.create.node"),
        ("CALL gds.pageRank.write('g', {})", "CALL gds.pageRank.write"),
        # A number ends where a word begins.
        ("WITH a, 1.0SET a.x = 2", "SET"),
        # Neo4j decodes the letter S.
        (r"MATCH (a) \u0053ET a.x = 1", "SET"),
        # A decoded quote ends a string in Neo4j, and one that stays encoded does not.
        (r"RETURN '\u0027 SET a.x = 1 //'", "SET"),
        (r"MATCH (a) WHERE a.x = '\u0027' SET a.y = 1 RETURN '\u0027'", "SET"),
        ("RETURN '\\\\' SET a.x = 1 RETURN ''", "SET"),
    ],
)
def test_a_statement_that_writes_is_recognised(statement: str, word: str) -> None:
    assert writing_word(statement) == word


@pytest.mark.parametrize(
    "statement",
    [
        "MATCH (a:Page)-[:CITES]->(b) RETURN b.id AS id",
        "MATCH (a) WHERE a.created > 1 AND a.dataset = 'x' RETURN a.id AS id",
        "MATCH (a) // DELETE a\nRETURN a.id AS id /* or MERGE */",
        "MATCH (a) WHERE a.title = 'SET' OR a.title = \"it's a \\\" MERGE\" RETURN a.id AS id",
        "MATCH (a) RETURN a.`set` AS `MERGE`",
        "CALL db.labels() YIELD label RETURN label AS id",
        "CALL db.index.fulltext.queryNodes('pages', $question) YIELD node RETURN node.id AS id",
        "CALL gds.pageRank.stream('g') YIELD nodeId RETURN nodeId AS id",
        "CALL pagerank() YIELD node, score RETURN node.id AS id",
        "MATCH (a) CALL (a) { MATCH (a)-->(b) RETURN b } RETURN b.id AS id",
    ],
)
def test_a_statement_that_only_reads_has_no_writing_word(statement: str) -> None:
    assert writing_word(statement) is None


def test_parameters_are_named_outside_of_strings_and_comments() -> None:
    statement = (
        "MATCH (a) WHERE a.id IN $entities AND a.x = '$question' // $limit\nRETURN $`filter_meta.team`"
    )
    assert parameters(statement) == {"entities", "filter_meta.team"}
    assert unknown_parameters("RETURN $question, $filter_owner, $user, $Limit") == ["Limit", "user"]


def test_statements_of_a_declaration_are_found_at_any_depth() -> None:
    body = {
        "statements": [{"statement": "RETURN 1", "parameters": {"q": "{question}"}}],
        "cypher": "RETURN 2",
    }
    assert list(statements({"url": "http://x", "body": body})) == ["RETURN 1", "RETURN 2"]
