"""A JSON search endpoint as a source, against a real HTTP server: requests and answers."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from models.errors import NotConfigured, StageFailure
from models.hits import Ranking
from search.protocol import Search
from tests.support.servers.search_server import Answer, SearchServer, cuts_off, says, sends
from tests.support.stores.wiki_source import PAGES, Opens, ids, ranking_of

QUESTION = "“{depth}” & \ud800"
"""A placeholder in it is none, and no JSON has its surrogate."""
QUERY = "%E2%80%9C%7Bdepth%7D%E2%80%9D+%26+%3F"
BODY = {"match": {"text": "{question}"}, "size": "{depth}", "as": ["{ id }", "{namespace}: {question}"]}
KEY = {"api_key_env": "WIKI_KEY", "key": "sesame-0815\n"}
SENT: dict[str, tuple[dict[str, Any], str, Any, dict[str, str | None]]] = {
    "parameters": ({}, f"/search?q={QUERY}&limit=4", None, {"authorization": None}),
    "a body": (
        {"method": "POST", "params": {}, "body": BODY, "headers": {"X-Site": "b"}},
        "/search",
        {"match": {"text": "“{depth}” & ?"}, "size": 4, "as": ["{ id }", "ns: “{depth}” & ?"]},
        {"content-type": "application/json", "x-site": "b"},
    ),
    "a key": (KEY, f"/search?q={QUERY}&limit=4", None, {"authorization": "Bearer sesame-0815"}),
    "a key in a header": (
        {**KEY, "key_header": "X-Key", "key_prefix": ""},
        f"/search?q={QUERY}&limit=4",
        None,
        {"x-key": "sesame-0815", "authorization": None},
    ),
    "a key in a parameter": (
        {**KEY, "params": {"q": "{question}", "key": "{key}", "all": True}},
        f"/search?q={QUERY}&key=sesame-0815&all=true",
        None,
        {"authorization": None},
    ),
}


@pytest.mark.parametrize("place", SENT)
def test_a_question_is_sent_in_the_declared_places(server: SearchServer, opens: Opens, place: str) -> None:
    options, target, body, headers = SENT[place]
    ranking_of(opens(**options), QUESTION, depth=4)
    [request] = server.requests
    assert (request.method, request.target, request.body) == (options.get("method", "GET"), target, body)
    assert {name: request.headers.get(name) for name in headers} == headers


def test_a_question_cannot_change_the_rest_of_the_address(server: SearchServer, opens: Opens) -> None:
    source = opens(url=f"{server.url}/{{question}}/x?of={{namespace}}", params={"n": "{depth}"})
    ranking_of(source, "../a.b?a=b#c d", depth=3)
    assert server.requests[0].target == "/search/%2E%2E%2Fa%2Eb%3Fa%3Db%23c%20d/x?of=ns&n=3"


def test_the_vector_of_a_question_is_sent_in_place_of_its_text(server: SearchServer, opens: Opens) -> None:
    vectors = np.array([[0.5, -0.25], [1.0, 0.0]], np.float32)
    body = {"query": {"vector": "{vector}", "top_k": "{depth}"}, "shown": "v={vector}"}
    source = opens(method="POST", params={"near": "{vector}"}, body=body, connections=1)
    first, second = source.search_vectors("ns", vectors, Search(depth=3, timeout_s=20.0))
    assert [request.body for request in server.requests] == [
        {"query": {"vector": [0.5, -0.25], "top_k": 3}, "shown": "v=[0.5,-0.25]"},
        {"query": {"vector": [1.0, 0.0], "top_k": 3}, "shown": "v=[1.0,0.0]"},
    ]
    assert parse_qs(urlsplit(server.requests[0].target).query) == {"near": ["[0.5,-0.25]"]}
    assert ids(first) == ids(second) == ["wiki/7", "wiki/keys"]
    with pytest.raises(NotConfigured, match=r"only be searched by vector: it has no \{question\}"):
        ranking_of(source)
    with pytest.raises(NotConfigured, match=r"only be searched by text: it has no \{vector\}"):
        opens().search_vectors("ns", vectors, Search(depth=5))


def test_several_questions_are_sent_at_once_and_answered_in_order(server: SearchServer, opens: Opens) -> None:
    together = threading.Barrier(4)

    def answer(handler: Any) -> None:
        together.wait(20)
        question = parse_qs(urlsplit(handler.path).query)["q"][0]
        says({"items": [{"id": question}]})(handler)

    server.answer = answer
    rankings = opens(connections=4).search_text("ns", list("abcd"), Search(depth=5, timeout_s=20))
    assert [ids(ranking) for ranking in rankings] == [[f"wiki/{text}"] for text in "abcd"]


def test_connections_are_reused_and_a_closed_one_is_replaced(server: SearchServer, opens: Opens) -> None:
    source, before, closing = opens(), server.connections, threading.Event()
    for _ in range(3):
        assert ids(ranking_of(source)) == ["wiki/7", "wiki/keys"]
    assert server.connections == before + 1

    server.answer = sends(200, b'{"items": []}', connection="close")
    assert ranking_of(source).hits == ()

    def answers_and_leaves(handler: Any) -> None:
        says({"items": PAGES})(handler)
        handler.close_connection = True  # the headers do not announce it
        closing.set()

    server.answer = answers_and_leaves
    for _ in range(2):
        assert ids(ranking_of(source)) == ["wiki/7", "wiki/keys"]
        assert closing.wait(20)


@pytest.mark.parametrize(
    "answer",
    [cuts_off(b'{"items": []}', after=5), lambda handler: handler.wfile.write(b"SSH-2.0\r\n\r\n")],
    ids=["cut off", "no HTTP"],
)
def test_a_request_whose_answer_began_is_not_sent_again(
    server: SearchServer, opens: Opens, answer: Answer
) -> None:
    source = opens()
    ranking_of(source)
    server.answer = answer
    with pytest.raises(StageFailure):
        ranking_of(source)
    assert len(server.requests) == 2


def test_undeclared_namespaces_find_nothing_and_send_nothing(server: SearchServer, opens: Opens) -> None:
    source = opens(namespaces=["theirs"])
    assert source.search_text("ns", ["a", "b"], Search(depth=5)) == [Ranking(), Ranking()]
    assert server.requests == []
    assert source.search_text("theirs", ["a"], Search(depth=5, timeout_s=20))[0].hits


def test_hits_are_in_the_endpoints_order_with_the_declared_fields(opens: Opens) -> None:
    ranking = ranking_of(opens(total="found.all"))
    assert [hit[:5] for hit in ranking.hits] == [
        ("wiki/7#wiki", "wiki/7", 2.5, "page", "2024-05-01"),
        ("wiki/keys#wiki", "wiki/keys", 1.0, "faq", None),
    ]
    assert (ranking.total_matches, ranking.warnings) == (40, ())
    text = ranking.texts["wiki/7#wiki"]
    assert (text.title, text.text) == ("Rent", "The rent is due on the third day.")
    described = {"published_at": "2024-05-01", "source_type": "page"}
    assert text.metadata == {"url": "https://wiki.example/7", **described}
    # The declared prefix turns the ids of an answer into the ids of indexed documents.
    assert ids(ranking_of(opens(id_prefix=""))) == ["7", "keys"]


def test_a_document_found_twice_counts_once_and_the_depth_is_kept(server: SearchServer, opens: Opens) -> None:
    hits: list[dict[str, Any]] = [
        {"id": 1, "name": "first"},
        {"id": 1, "name": "second"},
        {"id": 2},
        {"id": 3},
    ]
    server.answer = says([{**hit, "rank": 1} for hit in hits])
    ranking = ranking_of(opens(hits=None), depth=2)
    assert ids(ranking) == ["wiki/1", "wiki/2"]
    assert ranking.texts["wiki/1#wiki"].title == "first"
    cut = ranking_of(opens(hits=None, max_hits=3))
    assert (ids(cut), cut.warnings) == (["wiki/1", "wiki/2"], ("source: wiki: the first 3 of 4 hits count",))
    server.answer = says([{"id": id_, "rank": 1} for id_ in (1, "1", 2, 2)])
    mixed = ranking_of(opens(hits=None))
    said = "1 of 4 hits are left out: an earlier hit has the same id, as a number instead of a text or the reverse"
    assert (ids(mixed), mixed.warnings) == (["wiki/1", "wiki/2"], (f"source: wiki: {said}",))


def test_stores_with_one_prefix_find_the_same_passages_and_no_passage_has_the_id_of_an_indexed_one(
    opens: Opens,
) -> None:
    """Otherwise a context for a language model would have each of these texts twice."""
    passages = {
        prefix: ranking_of(opens(id_prefix=prefix)).hits[0].passage_id
        for prefix in (None, "wiki/", "kb-", "", "2024/")
    }
    assert passages == {
        None: "wiki/7#wiki",
        "wiki/": "wiki/7#wiki",
        "kb-": "kb-7#kb-",
        "": "7#wiki",
        "2024/": "2024/7#wiki",
    }


def test_html_becomes_text_and_long_texts_are_cut(server: SearchServer, opens: Opens) -> None:
    server.answer = says({"items": [{"id": 1, "name": "A &amp; B", "extract": "<em>Rent</em> &lt; 5"}]})
    plain = ranking_of(opens(text_is_html=True)).texts["wiki/1#wiki"]
    assert (plain.title, plain.text) == ("A & B", "Rent < 5")
    assert ranking_of(opens()).texts["wiki/1#wiki"].text == "<em>Rent</em> &lt; 5"
    server.answer = says({"items": [{"id": 1, "extract": "<p>1 < 2 and 3 > 2</p><!-- x --><br/>"}]})
    assert ranking_of(opens(text_is_html=True)).texts["wiki/1#wiki"].text == "1 < 2 and 3 > 2"
    server.answer = says({"items": [{"id": 1, "name": "n" * 5_000, "extract": "x" * 5_000}]})
    long = ranking_of(opens(text_chars=100)).texts["wiki/1#wiki"]
    assert (len(long.title), len(long.text)) == (500, 100)


def test_a_lone_surrogate_is_replaced_and_a_byte_order_mark_ignored(
    server: SearchServer, opens: Opens
) -> None:
    name = rb"\ud83d \ud83d\ude00 \\ud83d \uDE00 \u00e9"
    server.answer = sends(200, b'\xef\xbb\xbf{"items": [{"id": "a\\ud83d", "name": "%s"}]}' % name)
    ranking = ranking_of(opens())
    assert ids(ranking) == ["wiki/a\ufffd"]
    assert ranking.texts["wiki/a\ufffd#wiki"].title == "\ufffd \N{GRINNING FACE} \\ud83d \ufffd é"


def test_a_score_may_be_a_text_and_hits_without_a_number_are_counted(
    server: SearchServer, opens: Opens
) -> None:
    server.answer = says({"items": [{"id": 1, "rank": "0.76"}, {"id": 2, "rank": "1.5E-2"}]})
    ranking = ranking_of(opens())
    assert ([hit.score for hit in ranking.hits], ranking.warnings) == ([0.76, 0.015], ())
    unscored = "source: wiki: 2 of 2 hits have no number at 'sim', and get the score 0"
    assert ranking_of(opens(score="sim")).warnings == (unscored,)
    assert ranking_of(opens(score=None)).warnings == ()


def nested(levels: int) -> Any:
    return {"a": nested(levels - 1)} if levels else 1


def test_values_of_wrong_types_do_not_remove_a_hit_but_a_missing_id_does(
    server: SearchServer, opens: Opens
) -> None:
    odd = [
        {"id": 1, "name": 5, "extract": None, "rank": "high", "changed": 1714, "kind": ["a"]},
        {"id": 2, "extract": ["one", 2, "two"], "rank": True, "changed": "soon"},
        {"id": 3, "rank": 10**400, "link": ["one", "two"], "of": nested(17)},
        {"id": 4, "link": 4, "changed": "2024-W01-5", "of": nested(16)},
    ]
    unusable: list[Any] = [None, "", {}, True, "x" * 600, 1.5]
    no_ids: list[Any] = [*({"id": id_} for id_ in unusable), 5]
    server.answer = says({"items": [*odd, *no_ids]})
    ranking = ranking_of(opens(total="items", metadata={"url": "link", "of": "of"}))
    assert [hit[2:5] for hit in ranking.hits] == [(0.0, None, None)] * 4
    # A url must be a text, and no JSON may be deeper than indexed metadata.
    assert [dict(text.metadata) for text in ranking.texts.values()] == [{}, {}, {}, {"of": nested(16)}]
    assert ranking.texts["wiki/1#wiki"].title == ""
    assert ranking.texts["wiki/2#wiki"].text == "one … two"
    assert ranking.total_matches is None
    assert ranking.warnings == (
        "source: wiki: 7 of 11 hits have no text or whole number as id",
        "source: wiki: 4 of 4 hits have a value of 'of', 'published_at', 'source_type', 'url' that cannot be used",
        "source: wiki: 4 of 4 hits have no number at 'rank', and get the score 0",
    )
