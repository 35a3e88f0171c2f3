"""A JSON search endpoint as a source, against a real HTTP server: requests and answers."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from models.errors import (
    NotConfigured,
)
from models.hits import Ranking
from search.protocol import Search
from tests.support.servers.search_server import (
    SearchServer,
    says,
    sends,
)
from tests.support.stores.wiki_source import PAGES, Opens, found, ids

SECRET = "sesame-0815"


def nested(levels: int) -> Any:
    return {"a": nested(levels - 1)} if levels else 1


def test_question_and_depth_are_sent_in_the_declared_places(server: SearchServer, opens: Opens) -> None:
    found(opens(), "What's a “Mietkaution” & why? {depth}", depth=3)
    (asked,) = server.asked
    assert asked.method == "GET"
    assert urlsplit(asked.target).path == "/search"
    assert parse_qs(urlsplit(asked.target).query) == {
        "q": ["What's a “Mietkaution” & why? {depth}"],
        "limit": ["3"],
    }


def test_a_body_is_filled_in_and_a_number_stays_one(server: SearchServer, opens: Opens) -> None:
    body = {
        "query": {"match": {"text": "{question}"}},
        "size": "{depth}",
        "tags": ["ns:{namespace}", "{ id }", "text:{question}"],
    }
    url = f"{server.url}?of={{namespace}}"
    source = opens(method="POST", params={}, body=body, url=url, headers={"X-Site": "b"})
    found(source, 'say "{namespace}" \ud800', depth=4)
    (asked,) = server.asked
    assert (asked.method, asked.target) == ("POST", "/search?of=ns")
    assert asked.body == {
        "query": {"match": {"text": 'say "{namespace}" ?'}},
        "size": 4,
        "tags": ["ns:ns", "{ id }", 'text:say "{namespace}" ?'],
    }
    assert (asked.headers["content-type"], asked.headers["x-site"]) == ("application/json", "b")


def test_a_question_cannot_change_the_rest_of_the_path(server: SearchServer, opens: Opens) -> None:
    found(opens(url=f"{server.url}/{{question}}/x", params={}), "../../admin?a=b#c d")
    assert server.asked[0].target == "/search/..%2F..%2Fadmin%3Fa%3Db%23c%20d/x"


def test_the_key_goes_into_the_header_or_where_it_is_declared(server: SearchServer, opens: Opens) -> None:
    found(opens(api_key_env="WIKI_KEY", key=f"{SECRET}\n"))
    found(opens(api_key_env="WIKI_KEY", key=SECRET, key_header="X-Key", key_prefix=""))
    found(opens(api_key_env="WIKI_KEY", key=SECRET, params={"q": "{question}", "apikey": "{key}"}))
    bearer, header, parameter = server.asked
    assert bearer.headers["authorization"] == f"Bearer {SECRET}"
    assert header.headers["x-key"] == SECRET
    assert parse_qs(urlsplit(parameter.target).query)["apikey"] == [SECRET]
    assert "authorization" not in {*header.headers, *parameter.headers}


def test_several_questions_are_asked_at_once_and_answered_in_order(
    server: SearchServer, opens: Opens
) -> None:
    together = threading.Barrier(4)

    def answer(handler: Any) -> None:
        together.wait(20)
        question = parse_qs(urlsplit(handler.path).query)["q"][0]
        says({"items": [{"id": question}]})(handler)

    server.answer = answer
    texts = ["a", "b", "c", "d"]
    rankings = opens(connections=4).search_text("ns", texts, Search(depth=5, timeout_s=20))
    assert [ids(ranking) for ranking in rankings] == [[f"wiki/{text}"] for text in texts]


def test_connections_are_reused_and_a_closed_one_is_replaced(server: SearchServer, opens: Opens) -> None:
    source, before = opens(), server.connections
    for _ in range(3):
        assert ids(found(source)) == ["wiki/7", "wiki/keys"]
    assert server.connections == before + 1

    server.answer = sends(200, b'{"items": []}', connection="close")
    found(source)
    quiet = says({"items": PAGES})
    closing = threading.Event()

    def answers_and_leaves(handler: Any) -> None:
        quiet(handler)
        handler.close_connection = True  # the headers announce no compression
        closing.set()

    server.answer = answers_and_leaves
    for _ in range(2):
        assert ids(found(source)) == ["wiki/7", "wiki/keys"]
        assert closing.wait(20)


def test_undeclared_namespaces_find_nothing_and_send_nothing(server: SearchServer, opens: Opens) -> None:
    source = opens(namespaces=["theirs"])
    assert source.search_text("ns", ["a", "b"], Search(depth=5)) == [Ranking(), Ranking()]
    assert server.asked == []
    assert source.search_text("theirs", ["a"], Search(depth=5))[0].hits


def test_hits_are_in_the_endpoints_order_with_the_declared_fields(opens: Opens) -> None:
    ranking = found(opens(total="found.all"))
    first, second = ranking.hits
    assert (first.document_id, first.passage_id, first.score) == ("wiki/7", "wiki/7#wiki", 2.5)
    assert (first.source_type, first.published_at) == ("page", "2024-05-01")
    assert (second.document_id, second.score, second.published_at) == ("wiki/keys", 1.0, None)
    assert ranking.total_matches == 40
    text = ranking.texts["wiki/7#wiki"]
    assert (text.title, text.text) == ("Rent", "The rent is due on the third day.")
    described = {"published_at": "2024-05-01", "source_type": "page"}
    assert text.metadata == {"url": "https://wiki.example/7", **described}
    assert ranking.warnings == ()
    assert Ranking.from_wire(ranking.to_wire()) == ranking
    # The declared prefix turns the ids of an answer into the ids of indexed documents.
    assert ids(found(opens(id_prefix=""))) == ["7", "keys"]
    assert ids(found(opens(id_prefix="handbook/"))) == ["handbook/7", "handbook/keys"]


def test_a_document_found_twice_counts_once_and_the_depth_is_kept(server: SearchServer, opens: Opens) -> None:
    server.answer = says([{"id": 1, "name": "first"}, {"id": 1, "name": "second"}, {"id": 2}, {"id": 3}])
    ranking = found(opens(hits=None), depth=2)
    assert ids(ranking) == ["wiki/1", "wiki/2"]
    assert ranking.texts["wiki/1#wiki"].title == "first"
    assert ids(found(opens(hits=None, max_hits=3), depth=10)) == ["wiki/1", "wiki/2"]


def test_html_becomes_text_and_long_texts_are_cut(server: SearchServer, opens: Opens) -> None:
    server.answer = says({"items": [{"id": 1, "name": "A &amp; B", "extract": "<em>Rent</em> &lt; 5"}]})
    plain = found(opens(text_is_html=True)).texts["wiki/1#wiki"]
    assert (plain.title, plain.text) == ("A & B", "Rent < 5")
    assert found(opens()).texts["wiki/1#wiki"].text == "<em>Rent</em> &lt; 5"
    server.answer = says({"items": [{"id": 1, "name": "n" * 5_000, "extract": "x" * 5_000}]})
    long = found(opens(text_chars=100)).texts["wiki/1#wiki"]
    assert (len(long.title), len(long.text)) == (500, 100)


def test_a_lone_surrogate_is_replaced_and_a_byte_order_mark_ignored(
    server: SearchServer, opens: Opens
) -> None:
    name = rb"\ud83d \ud83d\ude00 \\ud83d \uDE00 \u00e9"
    server.answer = sends(200, b'\xef\xbb\xbf{"items": [{"id": "a\\ud83d", "name": "%s"}]}' % name)
    ranking = found(opens())
    assert ids(ranking) == ["wiki/a\ufffd"]
    assert ranking.texts["wiki/a\ufffd#wiki"].title == "\ufffd \N{GRINNING FACE} \\ud83d \ufffd é"


def test_values_of_wrong_types_do_not_remove_a_hit_but_a_missing_id_does(
    server: SearchServer, opens: Opens
) -> None:
    odd = [
        {"id": 1, "name": 5, "extract": None, "rank": "high", "changed": 1714, "kind": ["a"]},
        {"id": 2, "extract": ["one", 2, "two"], "rank": True, "changed": "soon"},
        {"id": 3, "rank": 10**400, "link": ["one", "two"], "of": nested(17)},
        {"id": 4, "link": 4, "of": nested(16)},
    ]
    wrong_ids: list[Any] = [None, "", {}, True, "x" * 600, 1.5]
    no_ids = [*({"id": wrong} for wrong in wrong_ids), 5]
    server.answer = says({"items": [*odd, *no_ids]})
    ranking = found(opens(total="items", metadata={"url": "link", "of": "of"}))
    assert [(hit.score, hit.source_type, hit.published_at) for hit in ranking.hits] == [(0.0, None, None)] * 4
    # A url must be a text, and no JSON may be deeper than indexed metadata.
    assert [dict(text.metadata) for text in ranking.texts.values()] == [{}, {}, {}, {"of": nested(16)}]
    assert ranking.texts["wiki/1#wiki"].title == ""
    assert ranking.texts["wiki/2#wiki"].text == "one … two"
    assert ranking.total_matches is None
    assert ranking.warnings == (
        "source: wiki: 7 of 11 hits have no id",
        "source: wiki: 4 of 11 hits have metadata that cannot be used",
    )


def test_hits_beyond_those_that_the_store_declares_are_left_out_with_a_warning(
    server: SearchServer, opens: Opens
) -> None:
    server.answer = says({"items": [{"id": number} for number in range(5)]})
    ranking = found(opens(max_hits=3))
    assert ids(ranking) == ["wiki/0", "wiki/1", "wiki/2"]
    assert ranking.warnings == ("source: wiki: the first 3 of 5 hits count",)


def test_the_vector_of_a_question_is_sent_in_place_of_its_text(server: SearchServer, opens: Opens) -> None:
    vectors = np.array([[0.5, -0.25], [1.0, 0.0]], np.float32)
    body = {"query": {"vector": "{vector}", "top_k": "{depth}"}, "shown": "v={vector}"}
    source = opens(method="POST", params={}, body=body, connections=1)
    first, second = source.search_vectors("ns", vectors, Search(depth=3, timeout_s=20.0))
    assert [asked.body for asked in server.asked] == [
        {"query": {"vector": [0.5, -0.25], "top_k": 3}, "shown": "v=[0.5,-0.25]"},
        {"query": {"vector": [1.0, 0.0], "top_k": 3}, "shown": "v=[1.0,0.0]"},
    ]
    assert ids(first) == ids(second) == ["wiki/7", "wiki/keys"]
    server.asked.clear()
    opens(params={"near": "{vector}"}).search_vectors("ns", vectors[:1], Search(depth=3, timeout_s=20.0))
    assert parse_qs(urlsplit(server.asked[0].target).query) == {"near": ["[0.5,-0.25]"]}


def test_unsupported_calls_are_refused(opens: Opens) -> None:
    source = opens()
    with pytest.raises(NotConfigured, match=r"only be searched by text: it has no \{vector\}"):
        source.search_vectors("ns", np.ones((1, 4), np.float32), Search(depth=5))
    with pytest.raises(NotConfigured, match=r"only be searched by vector: it has no \{question\}"):
        opens(params={"near": "{vector}"}).search_text("ns", ["rent"], Search(depth=5))
    assert source.vectors("ns", ["wiki/7#wiki"]) == {}
    assert source.texts("ns", ["wiki/7#wiki"]) == {}
    assert source.generation("ns") is None
