"""A JSON search endpoint as a source, against a real HTTP server: requests, answers and failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import numpy as np
import psutil
import pytest

from models.endpoints import FilterDialect, HttpEndpoint
from models.errors import (
    BadIndex,
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from models.hits import Ranking
from search.engines.http.source import HttpSource
from search.protocol import Search
from tests.support.servers.certificates import Certificate
from tests.support.servers.search_server import (
    Answer,
    SearchServer,
    cuts_off,
    drips,
    hangs_up,
    says,
    sends,
    sleeps,
    writes,
)
from tests.support.waiting import until

SECRET = "sesame-0815"
PAGES = [
    {"id": 7, "name": "Rent", "extract": "The rent is due on the third day.", "rank": 2.5, "kind": "page"},
    {"id": "keys", "name": "Keys", "extract": "Two keys are handed over.", "rank": 1, "kind": "faq"},
]
PAGES[0] |= {"changed": "2024-05-01", "link": "https://wiki.example/7"}

FIELDS: dict[str, Any] = {"hits": "items", "id": "id", "title": "name", "text": "extract", "score": "rank"}
FIELDS |= {"published_at": "changed", "source_type": "kind", "metadata": {"url": "link"}}

Opens = Callable[..., HttpSource]


@pytest.fixture(scope="module")
def running() -> Iterator[SearchServer]:
    with SearchServer() as server:
        yield server


@pytest.fixture
def server(running: SearchServer) -> SearchServer:
    running.answer = says({"items": PAGES, "found": {"all": 40}})
    running.asked.clear()
    return running


@pytest.fixture
def opens(server: SearchServer) -> Iterator[Opens]:
    """Opens the source `wiki` on that server with additional options."""
    made: list[HttpSource] = []

    def open_(*, key: str | None = None, **options: Any) -> HttpSource:
        usual = {"url": server.url, "params": {"q": "{question}", "limit": "{depth}"}, **FIELDS}
        made.append(HttpSource("wiki", HttpEndpoint(**{**usual, **options}), key=key))
        return made[-1]

    yield open_
    for source in made:
        source.close()


def found(source: HttpSource, text: str = "When is the rent due?", **options: Any) -> Ranking:
    (ranking,) = source.search_text("ns", [text], Search(**{"depth": 10, "timeout_s": 20.0, **options}))
    return ranking


def connections_to(port: int | None) -> list[int]:
    """The open file descriptors of this process."""
    found = psutil.Process().net_connections("tcp4")
    return [connection.fd for connection in found if connection.raddr and connection.raddr.port == port]


def nested(levels: int) -> Any:
    return {"a": nested(levels - 1)} if levels else 1


def ids(ranking: Ranking) -> list[str]:
    return [hit.document_id for hit in ranking.hits]


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


def test_filters_look_at_the_fields_of_each_hit(server: SearchServer, opens: Opens) -> None:
    source = opens()
    assert ids(found(source, depth=1, filters={"source_type": "faq"})) == ["wiki/keys"]
    assert parse_qs(urlsplit(server.asked[0].target).query)["limit"] == ["50"], "filtering is done here"
    assert ids(found(source, filters={"published_at": {"gte": "2024-01-01"}})) == ["wiki/7"]
    assert ids(found(source, exclude_ids=["wiki/7"])) == ["wiki/keys"]
    assert ids(found(source, filters={"source": "wiki"})) == ["wiki/7", "wiki/keys"]
    claiming = opens(metadata={"source": "kind"})
    assert ids(found(claiming, filters={"source": "wiki"})) == ["wiki/7", "wiki/keys"]
    unknown = found(source, filters={"year": 2024})
    assert unknown.hits == ()
    assert unknown.warnings == ("filter 'year': no document has this field, so nothing matches",)


PINECONE: dict[str, Any] = {
    "method": "POST",
    "params": {},
    "body": {"text": "{question}", "top_k": "{depth}", "filter": "{filter}"},
    "filter_dialect": "pinecone",
    "filter_fields": {"source_type": "kind"},
}


def test_filters_are_sent_in_the_dialect_of_the_endpoint(server: SearchServer, opens: Opens) -> None:
    source = opens(**PINECONE)
    ranking = found(source, depth=1, filters={"source_type": ["faq"], "year": {"gte": 2020}})
    assert server.asked[0].body == {
        "text": "When is the rent due?",
        "top_k": 1,
        "filter": {"$and": [{"kind": {"$in": ["faq"]}}, {"year": {"$gte": 2020}}]},
    }
    # Fields that the hits have are compared here too; the endpoint alone compares `year`, which they lack.
    assert (ids(ranking), ranking.warnings) == (["wiki/keys"], ())
    found(source)
    assert server.asked[1].body["filter"] == {}


def test_what_a_dialect_cannot_express_is_compared_here_among_more_hits_and_said(
    server: SearchServer, opens: Opens
) -> None:
    filters = {"source_type": ["page", "faq"], "published_at": {"gte": "2024-01-01"}}
    ranking = found(opens(**PINECONE), depth=1, filters=filters)
    sent = {"kind": {"$in": ["page", "faq"]}}
    assert server.asked[0].body == {"text": "When is the rent due?", "top_k": 50, "filter": sent}
    assert ids(ranking) == ["wiki/7"]
    assert ranking.warnings == (
        "source: wiki: filter 'published_at': pinecone cannot express the whole condition, which is compared here, "
        "among the first 50 hits",
    )


def test_hits_that_may_be_missing_because_filters_hold_here_are_said(
    server: SearchServer, opens: Opens
) -> None:
    faq = {"source_type": "faq"}
    said = "depth: wiki: 1 documents instead of 2: filters and exclusions were compared here, among the first 2 hits"
    assert found(opens(max_hits=2), depth=2, filters=faq).warnings == (said,)
    assert found(opens(max_hits=2), depth=2, exclude_ids=["wiki/7"]).warnings == (said,)
    assert found(opens(max_hits=2), depth=1, filters=faq).warnings == (), "nothing is missing"
    assert found(opens(max_hits=3), depth=2, filters=faq).warnings == (), "the endpoint has no more"


@pytest.mark.parametrize("dialect", get_args(FilterDialect))
@pytest.mark.parametrize("forced", ["acme", {"contains": "acm"}, {"not": "other"}, {"exists": True}])
def test_a_forced_filter_is_compared_here_whatever_the_endpoint_makes_of_it(
    server: SearchServer, opens: Opens, dialect: str, forced: Any
) -> None:
    """The endpoint ignores filters; its second hit is another tenant's, and its third has no owner at all."""
    server.answer = says(
        {"items": [{"id": name, "owner": name} for name in ("acme", "other")] + [{"id": "x"}]}
    )
    source = opens(**{**PINECONE, "filter_dialect": dialect}, metadata={"owner": "owner"})
    options: dict[str, Any] = {"filters": {"owner": {"all": [forced, {"not": "other"}]}}}
    ranking = found(source, forced_fields=("owner",), **options)
    assert ids(ranking) == ["wiki/acme"]
    # An owner that no hit has may be anybody.
    hidden = opens(**{**PINECONE, "filter_dialect": dialect})
    assert found(hidden, forced_fields=("owner",), filters={"owner": forced}).hits == ()
    assert found(opens(), forced_fields=("owner",), filters={"owner": forced}).hits == (), "nothing is sent"


def test_no_warning_says_what_a_key_forces_or_how_much_that_hides(server: SearchServer, opens: Opens) -> None:
    """The endpoint is asked for two hits, of which one is another tenant's."""
    server.answer = says({"items": [{"id": name, "owner": name} for name in ("acme", "other")]})
    source = opens(**PINECONE, metadata={"owner": "owner"}, max_hits=2)
    forced = {"owner": {"all": [{"contains": "acm"}]}}
    ranking = found(source, depth=2, forced_fields=("owner",), filters=forced)
    assert (ids(ranking), ranking.warnings) == (["wiki/acme"], ())
    own = {"id": {"contains": "c"}}
    ranking = found(source, depth=2, forced_fields=("owner",), filters={**forced, **own})
    assert ranking.warnings == (
        "source: wiki: filter 'id': pinecone cannot express the whole condition, which is compared here, among the first "
        "2 hits",
        "filter 'id': no document has this field, so nothing matches",
    )


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


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
FAILURES: dict[str, tuple[Answer, type[StageFailure], str]] = {
    "401": (sends(401), Unauthorised, "answers 401: check the key that api_key_env names"),
    "403": (sends(403), Unauthorised, "answers 403"),
    "404": (sends(404), BadIndex, "answers 404: check the url, params and body"),
    "429": (sends(429, retry_after="7"), StoreUnavailable, "too many requests (retry-after: 7)"),
    "500": (sends(500, b"<html>boom</html>"), StoreUnavailable, "answers 500"),
    "504": (sends(504), StoreTimeout, "answers 504"),
    "a redirect": (sends(302, location="http://127.0.0.1:1/"), BadIndex, "redirects are not followed"),
    "a number that is no status": (sends(600), InvalidAnswer, "not a valid HTTP status"),
    "not JSON": (sends(200, b"<html>hello</html>"), InvalidAnswer, "does not answer with JSON"),
    "NaN": (sends(200, b'{"items": [{"id": NaN}]}'), InvalidAnswer, "does not answer with JSON"),
    "JSON without end": (sends(200, b"[" * 40_000), InvalidAnswer, "does not answer with JSON"),
    "nothing": (sends(200), InvalidAnswer, "does not answer with JSON"),
    "no list": (says({"items": {"a": 1}}), InvalidAnswer, "no list of hits at 'items', but an object"),
    "no such field": (says({"hits": []}), InvalidAnswer, "no list of hits at 'items', but nothing"),
    "no id at all": (
        says({"items": [{"pk": 1}]}),
        InvalidAnswer,
        "none of 1 hits has a text or whole number",
    ),
    "a huge answer": (sends(200, b" " * 60_000), InvalidAnswer, "more than 50,000 bytes"),
    "a compressed one": (sends(200, b"xx", content_encoding="gzip"), InvalidAnswer, "compressed"),
    "cut off": (cuts_off(b'{"items": []}', after=5), InvalidAnswer, "is cut off, or no valid HTTP"),
    "a broken chunk": (writes(CHUNKED + b"5\r\n[1"), InvalidAnswer, "is cut off, or no valid HTTP"),
    "a chunk of less than nothing": (
        writes(CHUNKED + b"-5\r\n{}"),
        InvalidAnswer,
        "is cut off, or no valid HTTP",
    ),
    "another protocol": (writes(b"SSH-2.0-OpenSSH_9\r\n\r\n"), InvalidAnswer, "is cut off, or no valid HTTP"),
    "hung up": (hangs_up, StoreUnavailable, "closed the connection"),
    "silence": (sleeps(20), StoreTimeout, "did not answer within 0.3 s"),
    "headers that never end": (drips(400, 0.05, headers=True), StoreTimeout, "did not answer"),
    "a body that never ends": (drips(400, 0.05, headers=False), StoreTimeout, "did not answer"),
}


@pytest.mark.parametrize(("answer", "failure", "words"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_one_sentence_and_comes_in_time(
    server: SearchServer, opens: Opens, answer: Answer, failure: type[StageFailure], words: str
) -> None:
    ended = threading.Event()

    def answer_and_note_the_end(handler: Any) -> None:
        answer(handler)
        ended.set()

    server.answer = answer_and_note_the_end
    source = opens(
        max_bytes=50_000, api_key_env="WIKI_KEY", key=SECRET, params={"q": "{question}", "k": "{key}"}
    )
    never_ends = words.startswith("did not answer")
    with pytest.raises(failure) as raised:
        found(source, timeout_s=0.3 if never_ends else 20.0)
    assert not (never_ends and ended.is_set()), "the search waited for the endpoint"
    assert words in str(raised.value)
    assert server.url in str(raised.value), "which one"
    assert SECRET not in f"{raised.value!r}{raised.value.__cause__!r}{raised.value.__context__!r}"
    source.close()
    # The failure, and with it what was read of the answer, is still referenced here.
    until(lambda: not connections_to(urlsplit(server.url).port))


def test_after_a_failure_the_next_question_is_answered(server: SearchServer, opens: Opens) -> None:
    source = opens(connections=1)
    server.answer = drips(200, 0.05, headers=True)
    with pytest.raises(StoreTimeout):
        found(source, timeout_s=0.2)
    server.answer = says({"items": PAGES})
    assert ids(found(source, timeout_s=20)) == ["wiki/7", "wiki/keys"], "its only connection is free again"


def test_one_failing_question_fails_the_branch_at_once(server: SearchServer, opens: Opens) -> None:
    failed = threading.Event()

    def answer(handler: Any) -> None:
        if "bad" in handler.path:
            sends(401)(handler)
        else:
            failed.wait(60)

    server.answer = answer
    with pytest.raises(Unauthorised):
        opens().search_text("ns", ["good", "bad"], Search(depth=5, timeout_s=50))
    failed.set()


@pytest.mark.parametrize(
    ("options", "failure", "words"),
    [
        ({"timeout_s": 0.2}, StoreTimeout, r"within 0\.2 s"),
        ({"url": "http://127.0.0.1:1/search"}, StoreUnavailable, "refused"),
        ({"url": "https://127.0.0.1:{port}/search"}, StoreUnavailable, "cannot be reached"),
        (
            {"url": "https://127.0.0.1:1/", "ca_file": "/nowhere.pem"},
            NotConfigured,
            r"nowhere\.pem .*: No such file",
        ),
    ],
    ids=["the endpoint's own timeout", "no server", "a server without TLS", "no certificates"],
)
def test_a_declaration_that_the_server_does_not_meet_is_one_sentence(
    server: SearchServer, opens: Opens, options: dict[str, Any], failure: type[StageFailure], words: str
) -> None:
    server.answer = sleeps(5)
    if "url" in options:
        options = {**options, "url": options["url"].replace("{port}", str(urlsplit(server.url).port))}
    with pytest.raises(failure, match=words):
        found(opens(**options))


def test_a_certificate_is_checked(opens: Opens, tmp_path: Path) -> None:
    certificate = Certificate.make(tmp_path)
    with SearchServer(certificate) as server:
        server.answer = says({"items": PAGES})
        assert ids(found(opens(url=server.url, ca_file=str(certificate.file)))) == ["wiki/7", "wiki/keys"]
        with pytest.raises(StoreUnavailable, match=r"cannot be reached: .*certificate verify failed"):
            found(opens(url=server.url))


@pytest.mark.parametrize("key", [None, " ", "two\nlines", "snowman ☃"])
def test_a_missing_or_invalid_key_is_named_by_its_variable(opens: Opens, key: str | None) -> None:
    with pytest.raises(NotConfigured, match="the variable WIKI_KEY") as raised:
        found(opens(api_key_env="WIKI_KEY", key=key))
    assert not key or key.strip() == "" or key not in str(raised.value)
