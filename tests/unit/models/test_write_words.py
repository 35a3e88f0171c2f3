"""Whether a request of a store of kind `http` can write: keywords of Cypher and SQL in its address, parameters and body."""

from __future__ import annotations

from typing import Any

import pytest

from models.declarations.write_words import writing_word

URL = "https://d.example/query"


@pytest.mark.parametrize(
    ("sent", "word"),
    [
        ({"body": {"statement": "MERGE (a:Seen) RETURN a.id AS id"}}, "MERGE"),
        ({"body": {"query": "MERGE (a:Seen) RETURN a.id AS id"}}, "MERGE"),
        ({"body": {"steps": [{"run": ["SELECT 1", "delete from notes"]}]}}, "delete"),
        ({"body": {"sql": "UPDATE notes SET seen = 1"}}, "UPDATE"),
        ({"body": {"sql": "INSERT INTO notes VALUES (1)"}}, "INSERT"),
        ({"body": {"sql": "SELECT 1;DROP TABLE notes"}}, "DROP"),
        ({"body": {"sql": "CREATE TABLE notes (id int)"}}, "CREATE"),
        ({"body": {"sql": "REPLACE  INTO notes VALUES (1)"}}, "REPLACE"),
        ({"body": {"sql": "SELECT id\nINTO copies FROM notes"}}, "SELECT"),
        ({"body": {"sql": "EXEC purge"}}, "EXEC"),
        # SQL knows no escape in a text, so the text ends before the keyword.
        ({"body": {"sql": r"SELECT 'a\'; DELETE FROM notes; --'"}}, "DELETE"),
        ({"body": {"sql": "SELECT 1 /*! ; TRUNCATE notes */"}}, "TRUNCATE"),
        ({"body": {"delete": {"query": "{question}"}}}, "delete"),
        ({"body": {"json": '{"statement": "MERGE (a) RETURN a"}'}}, "MERGE"),
        ({"body": {"query": r"MATCH (a) \u0053ET a.x = 1"}}, "SET"),
        ({"body": {"cypher": "MATCH (a) SET a.x = 1"}}, "SET"),
        ({"body": {"query": "CALL gds.pageRank.write('g', {})"}}, "CALL gds.pageRank.write"),
        ({"params": {"q": "{question}", "sql": "Delete from notes"}}, "Delete"),
        ({"params": {"delete": "true"}}, "delete"),
        ({"url": f"{URL}?sql=DROP+TABLE+notes&q={{question}}"}, "DROP"),
        ({"url": f"{URL}?sql=%44ROP%20TABLE%20notes"}, "DROP"),
        ({"url": "https://d.example/notes/update?q={question}"}, "update"),
    ],
)  # fmt: skip
def test_a_keyword_that_writes_is_found_wherever_it_is_sent(sent: dict[str, Any], word: str) -> None:
    assert writing_word({"url": URL, **sent}) == word


@pytest.mark.parametrize(
    "sent",
    [
        {"url": "https://update.example/data-set/search?created=1&last_update=2"},
        {"params": {"action": "query", "srsearch": "{question}", "sort": "updated_at", "on": True, "n": 3}},
        {"body": {"statement": 'MATCH (a) WHERE a.name <> "MERGE" RETURN a.id AS id'}},
        {"body": {"sql": "SELECT id, `set`, replace(title, 'a', 'b') FROM log WHERE verb = 'DELETE'"}},
        {"body": {"cypher": "MATCH (a) // DELETE a\nWHERE a.title = 'how to SET it' RETURN a.id AS id"}},
        {"body": {"query": "CALL db.index.fulltext.queryNodes('p', $q) YIELD node RETURN node.id AS id"}},
        {"url": "https://d.example/call/v1.search?q={question}"},
        {"headers": {"X-Note": "update"}, "metadata": {"update": "updated"}, "title": "set"},
    ],
)
def test_a_part_of_a_word_a_quoted_word_and_what_is_not_sent_do_not_write(sent: dict[str, Any]) -> None:
    assert writing_word({"url": URL, **sent}) is None
