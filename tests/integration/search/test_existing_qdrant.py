"""A collection of Qdrant that is already there, searched by the stores that the page about sources declares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chorale_client import Request

from models.errors import BadIndex, Unauthorised
from models.hits import Ranking
from search.filter_meanings import expanded_filters
from search.filters import compile_filters
from search.kinds import open_http_source
from search.protocol import Search
from tests.support.code_blocks import code_blocks
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.pipelines.pipeline_files import declared
from tests.support.servers.qdrant_server import Collection, QdrantServer

KEY = "qd-sesame-0815"
QUESTION = "when is the rent due"
EMBEDDER = HashingEmbedder(dimension=64)
UUID = "550e8400-e29b-41d4-a716-446655440000"
FIRST = 2**64 - 1
NOTES: dict[int | str, dict[str, Any]] = {
    FIRST: {"text": "the rent is due on the third day", "topic": "law", "year": 2019, "open": True},
    UUID: {"text": "the deposit is due with the first rent", "topic": ["law", "money"], "year": 2022},
    3: {"text": "bread is baked from flour", "topic": "kitchen", "year": 2022, "open": False},
    4: {"text": "rent a car", "topic": [], "year": None, "html": "<b>rent</b>"},
    5: {"text": "when the day is long", "parts": [{"kind": "door"}, {"kind": "roof"}], "long name": "roof"},
}
"""Qdrant's ids, at the ends of what they can be, and payloads."""
NOTES[FIRST] |= {"title": "Rent", "stand": "2024-05-01"}
NOTES[UUID] |= {"stand": "2024-05-01T22:00:00+02:00", "parts": [{"kind": "roof"}], "of": {"kind": "roof"}}
NOTES[3] |= {"stand": "2023-01-01T08:00:00Z"}
INDEXES = {"text": "text", "topic": "keyword", "year": "integer", "stand": "datetime", "open": "bool"}


def vector(text: str) -> list[float]:
    [numbers] = EMBEDDER.embed_questions([text]).tolist()
    return list(numbers)


def cosine(id_: int | str) -> float:
    return float(np.dot(vector(QUESTION), vector(NOTES[id_]["text"])))


BEST_FIRST = sorted(NOTES, key=cosine, reverse=True)


def collection(folder: Path, *, longer: float = 1.0, **options: Any) -> Collection:
    points = [
        (id_, {"dense": [longer * one for one in vector(note["text"])], "bm25": note["text"]}, note)
        for id_, note in NOTES.items()
    ]
    return Collection(folder, points, **options)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantServer]:
    folder = tmp_path_factory.mktemp("qdrant")
    with QdrantServer(KEY) as running:
        running.collections = {
            "notes": collection(folder / "notes", indexes=INDEXES),
            "free": collection(folder / "free"),
            "Euclid": collection(folder / "euclid", distance="Euclid"),
            "Dot": collection(folder / "dot", distance="Dot", longer=3.0),
        }
        yield running


@pytest.fixture(scope="module")
def on_the_page(server: QdrantServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The options of the page's stores, at the address of the server."""
    [block] = [block for block in code_blocks("toml") if "[stores.note_words]" in block.code]
    text = block.code.replace("https://qdrant.example:6333", server.origin)
    stores = declared(tmp_path_factory.mktemp("page"), text).stores
    return {name: dict(store.options) for name, store in stores.items()}


@pytest.fixture(autouse=True)
def _key(server: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    server.requests.clear()


def ranking_of(
    options: dict[str, Any], namespace: str = "ns", size: int = 64, **search_options: Any
) -> Ranking:
    search = Search(**{"depth": 10, "timeout_s": 20.0, **search_options})
    with closing(open_http_source("notes", options)) as store:
        [ranking] = (
            store.search_vectors(namespace, np.array([vector(QUESTION)[:size]], np.float32), search)
            if store.takes_vectors
            else store.search_text(namespace, [QUESTION], search)
        )
    return ranking


def ids(ranking: Ranking) -> list[str]:
    return [hit.document_id.removeprefix("notes/") for hit in ranking.hits]


def in_collection(options: dict[str, Any], name: str, **others: Any) -> dict[str, Any]:
    return {**options, "url": options["url"].replace("/notes/", f"/{name}/"), **others}


def test_the_vectors_are_searched_in_qdrant_s_form_and_ranked_by_their_cosine(
    server: QdrantServer, on_the_page: dict[str, dict[str, Any]]
) -> None:
    ranking = ranking_of(on_the_page["notes"], depth=4)
    assert ids(ranking) == [str(id_) for id_ in BEST_FIRST[:4]]
    assert [hit.score for hit in ranking.hits] == pytest.approx([*map(cosine, BEST_FIRST[:4])], abs=1e-5)
    assert ranking.warnings == ()
    best = ranking.texts[f"notes/{FIRST}#notes"]
    assert (best.title, best.text) == ("Rent", NOTES[FIRST]["text"])
    assert best.metadata == {"topic": "law", "year": 2019, "open": True, "published_at": "2024-05-01"}
    [request] = server.requests
    assert (request.method, request.target) == ("POST", "/collections/notes/points/query")
    assert request.body.pop("query") == pytest.approx(vector(QUESTION), abs=1e-6)
    payload = {"exclude": ["html"]}
    assert request.body == {"using": "dense", "filter": {"must": []}, "limit": 4, "with_payload": payload}


def test_the_words_are_searched_by_qdrant_s_own_bm25_with_the_same_ids(
    server: QdrantServer, on_the_page: dict[str, dict[str, Any]]
) -> None:
    ranking = ranking_of(on_the_page["note_words"])
    assert set(ids(ranking)) == {str(FIRST), UUID, "4"}, "`when` is no word of its own to Qdrant"
    assert ids(ranking)[2] == "4", "which has one word of two"
    assert ranking.hits[1].score > ranking.hits[2].score > 0
    assert set(ids(ranking_of(on_the_page["note_words"], filters={"topic": "law"}))) == {str(FIRST), UUID}
    assert server.requests[0].body["query"] == {"text": QUESTION, "model": "qdrant/bm25"}
    body = {**on_the_page["note_words"]["body"], "query": {"text": "{question}"}, "using": "text"}
    by_index = ranking_of({**on_the_page["note_words"], "body": body}, filters={"topic": ["law", "kitchen"]})
    assert set(ids(by_index)) == {str(FIRST), UUID, "3"}, "to the text index `is` is a word"
    assert ids(by_index)[2] == "3", "which has one word of four"


FILTERS: list[dict[str, Any]] = [
    {"topic": "law"},
    {"topic": ["money", "kitchen"]},
    {"topic": {"all": ["law", {"not": "money"}]}},
    {"topic": {"not": ["law"]}},
    {"topic": {"exists": True}, "year": 2022},
    {"topic": {"exists": False}},
    {"year": "2022"},
    {"year": [2019, "2022"]},
    {"year": {"gt": 2019, "lte": 2022.0}},
    {"year": {"all": [{"gte": 2000}, {"not": 2019}]}},
    {"year": {"exists": False}},
    {"open": True},
    {"open": "false"},
    {"published_at": "2024-05-01"},
    {"published_at": "2024-05-01T20:00:00Z"},
    {"published_at": {"gt": "2023-01-01"}},
    {"published_at": {"gte": "2023-01-01", "lt": "2024-05-01"}},
    {"published_at": {"lte": "2024-05-01"}, "topic": {"not": "kitchen"}},
]
HERE: list[dict[str, Any]] = [
    {"topic": {"contains": "IT"}},
    {"published_at": {"not": "2024-05-01"}},
    {"year": {"not": {"gt": 2020}}},
    {"source": "notes", "year": 2022},
    {"document_id": f"notes/{UUID}"},
    {"topic": {"lt": 5}},
    {"year": "MMXXII"},
]
"""Filters of which Qdrant gets nothing, or a part."""


@pytest.mark.parametrize("where", ["notes", "free"])
@pytest.mark.parametrize("filters", [*FILTERS, *HERE, {"topic": []}], ids=str)
def test_a_filter_finds_what_our_own_finds_with_an_index_of_each_field_and_without(
    server: QdrantServer, on_the_page: dict[str, dict[str, Any]], filters: dict[str, Any], where: str
) -> None:
    options = in_collection(on_the_page["notes"], where)
    if where == "free":
        options["filter_indexes"] = {}
    expanded = expanded_filters(Request(questions=("?",), filters=filters))
    compiled = compile_filters(expanded)
    expected = []
    for id_ in BEST_FIRST:
        own = {"document_id": f"notes/{id_}", "source": "notes", "published_at": NOTES[id_].get("stand")}
        expected += [str(id_)] if compiled.matches(NOTES[id_] | own) else []
    ranking = ranking_of(options, filters=expanded)
    assert ids(ranking) == expected
    said = [warning for warning in ranking.warnings if "qdrant cannot express the whole condition" in warning]
    is_whole = filters not in HERE or (where == "free" and filters in HERE[-2:])
    assert (said == [], server.requests[0].body["limit"]) == (is_whole, 10 if is_whole else 50)
    if is_whole:  # also where the hits have no fields to compare
        assert (
            ids(ranking_of({**options, "metadata": {}, "published_at": None}, filters=expanded)) == expected
        )


def test_excluded_ids_and_forced_filters_are_compared_here_too(
    server: QdrantServer, on_the_page: dict[str, dict[str, Any]]
) -> None:
    first, second, third = (f"notes/{id_}" for id_ in BEST_FIRST[:3])
    assert ranking_of(on_the_page["notes"], depth=1, exclude_ids=[first, second]).hits[0].document_id == third
    forced = {"topic": {"all": ["law", {"not": "money"}]}}
    assert ids(ranking_of(on_the_page["notes"], filters=forced, forced_fields=("topic",))) == [str(FIRST)]
    assert server.requests[-1].body["filter"]["must"][0] == {"key": "topic", "match": {"any": ["law"]}}
    # No hit says whose it is.
    options = {**on_the_page["notes"], "metadata": {}}
    assert ranking_of(options, filters={"topic": "law"}, forced_fields=("topic",)).hits == ()


def test_the_best_hit_has_the_highest_score_whatever_the_distance(
    on_the_page: dict[str, dict[str, Any]],
) -> None:
    near = {"query": "{vector}", "using": "dense", "filter": "{filter}", "limit": "{depth}"}
    closeness = {"formula": {"div": {"left": 1, "right": {"sum": [1, "$score"]}}}}
    by_distance = {"prefetch": near, "query": closeness, "limit": "{depth}", "with_payload": True}
    for distance, body, expected in (
        ("Dot", on_the_page["notes"]["body"], [3 * cosine(id_) for id_ in BEST_FIRST]),
        # Of vectors of length 1, the square of the distance is 2 - 2 cosines.
        ("Euclid", by_distance, [1 / (1 + (2 - 2 * cosine(id_)) ** 0.5) for id_ in BEST_FIRST]),
    ):
        options = in_collection(on_the_page["notes"], distance, body=body, filter_indexes={})
        ranking = ranking_of(options)
        assert ids(ranking) == [str(id_) for id_ in BEST_FIRST]
        assert [hit.score for hit in ranking.hits] == pytest.approx(expected, abs=1e-3)
        assert set(ids(ranking_of(options, filters={"published_at": "2024-05-01"}))) == {str(FIRST), UUID}


def test_a_field_of_an_object_or_of_a_list_of_objects_has_qdrant_s_own_path(
    on_the_page: dict[str, dict[str, Any]],
) -> None:
    names = {"of.kind": "of.kind", "parts.kind": "parts[].kind", "long name": '"long name"'}
    options = in_collection(on_the_page["notes"], "free", filter_indexes={}, filter_fields=names)
    for field, expected in {"of.kind": [UUID], "parts.kind": [UUID, "5"], "long name": ["5"]}.items():
        ranking = ranking_of(options, filters={field: "roof"})
        assert (sorted(ids(ranking)), ranking.warnings) == (sorted(expected), ())


def test_a_namespace_is_a_field_of_the_collection(on_the_page: dict[str, dict[str, Any]]) -> None:
    mine = {"key": "topic", "match": {"value": "{namespace}"}}
    body = {**on_the_page["notes"]["body"], "filter": {"must": ["{filter}", mine]}}
    options = {**on_the_page["notes"], "body": body}
    assert ids(ranking_of(options, namespace="kitchen")) == ["3"]
    assert ids(ranking_of(options, namespace="law", filters={"year": 2022})) == [UUID]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no collection": ({"url": "gone"}, "404: .* [(]Not found: Collection `gone` doesn't exist![)]$"),
    "another model": ({"size": 1}, "400: .* [(].*expected dim: 64, got 1[)]$"),
    "no such vector": ({"using": "sparse"}, "400: .* [(]Not existing vector name error: sparse[)]$"),
    "no index": (
        {"filter_indexes": {}},
        "400: .* [(]Bad request: Index required but not found for .year. of",
    ),
    "another key": ({"key": "no"}, "401: check the key that api_key_env names$"),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_what_qdrant_refuses_is_said_in_its_own_words(
    on_the_page: dict[str, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    words: str,
) -> None:
    options = in_collection(on_the_page["notes"], change.get("url", "notes"))
    options["body"] = {**options["body"], "using": change.get("using", "dense")}
    options["filter_indexes"] = change.get("filter_indexes", options["filter_indexes"])
    monkeypatch.setenv("QDRANT_API_KEY", change.get("key", KEY))
    with pytest.raises(Unauthorised if "key" in change else BadIndex, match=words):
        ranking_of(options, size=change.get("size", 64), filters={"year": [2022, "2022"]})
