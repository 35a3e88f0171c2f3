"""An index of Elasticsearch with somebody else's mapping, searched by the stores that the page about sources declares."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from chorale_client import Request
from elasticsearch import Elasticsearch

from models.errors import BadIndex
from models.hits import Ranking
from search.engines.http.filter_dialects import DIALECTS
from search.engines.http.source import HttpSource
from search.filter_meanings import expanded_filters
from search.filters import compile_filters
from search.kinds import open_http_source
from search.protocol import Search
from tests.support.code_blocks import code_blocks
from tests.support.pipelines.pipeline_files import declared
from tests.support.servers.elasticsearch_server import HUNSPELL, address, corner

MAPPING: dict[str, Any] = {
    "dynamic": "strict",
    "properties": {
        "titel": {"type": "text", "analyzer": "chorale"},
        "inhalt": {"type": "text", "analyzer": "chorale"},
        "thema": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
        "jahr": {"type": "integer"},
        "stand": {"type": "date"},
        "stand_als_text": {"type": "keyword"},
        "stand_in_s": {"type": "date", "format": "epoch_second"},
        "stand_in_ms": {"type": "date"},
        "kapitel": {"type": "nested", "properties": {"nr": {"type": "integer"}}},
        "anhang": {"type": "nested", "include_in_root": True, "properties": {"nr": {"type": "integer"}}},
        "frei": {"type": "boolean"},
        "vektor": {"type": "dense_vector", "dims": 4, "index": True, "similarity": "cosine"},
    },
}
PAPERS: dict[str, dict[str, Any]] = {
    "miete": {"titel": "Rent", "inhalt": "The rent is due on the third day.", "thema": "Recht"},
    "kaution": {"titel": "Deposit", "inhalt": "The deposit is three rents.", "thema": ["Recht", "Geld"]},
    "brot": {"titel": "Bread", "inhalt": "Bread is baked from flour.", "thema": "Küche des Hauses"},
    "leer": {"titel": "Nothing else", "inhalt": "This has nothing about rent."},
}
PAPERS["miete"] |= {"jahr": 2019, "stand": "2024-05-01", "frei": True, "vektor": [1, 0, 0, 0]}
PAPERS["kaution"] |= {
    "jahr": 2022,
    "stand": "2024-05-01T22:00:00+02:00",
    "frei": False,
    "vektor": [4, 3, 0, 0],
}
PAPERS["brot"] |= {"jahr": 2022, "stand": "2023-01-01", "vektor": [0, 0, 1, 0]}
for _paper in PAPERS.values():
    _paper |= {"stand_als_text": _paper.get("stand")}
for _name, _moment in {
    "miete": "2024-05-01",
    "kaution": "2024-05-01T20:00+00:00",
    "brot": "2023-01-01",
}.items():
    _seconds = calendar.timegm(datetime.fromisoformat(_moment).timetuple())
    PAPERS[_name] |= {"stand_in_s": _seconds, "stand_in_ms": _seconds * 1_000}
    PAPERS[_name] |= {"kapitel": [{"nr": 1}], "anhang": [{"nr": 1}]}


@pytest.fixture(scope="module")
def index() -> Iterator[str]:
    """The address of the index."""
    with corner() as prefix, Elasticsearch(address(), request_timeout=30) as client:
        name = f"{prefix}-papers"
        client.indices.create(
            index=name, mappings=MAPPING, settings={"number_of_replicas": 0, "analysis": HUNSPELL}
        )
        lines = [line for id_, paper in PAPERS.items() for line in ({"index": {"_id": id_}}, paper)]
        assert not client.bulk(index=name, operations=lines, refresh=True)["errors"]
        yield f"{address()}/{name}"


@pytest.fixture(scope="module")
def stores(index: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, HttpSource]]:
    """The stores of the page, at the address of the index and without a key."""
    made = {
        name: open_http_source(name, options)
        for name, options in options_on_the_page(index, tmp_path_factory)
    }
    yield made
    for store in made.values():
        store.close()


def options_on_the_page(index: str, folders: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Any]]]:
    [block] = [
        block
        for block in code_blocks("toml")
        if block.page == "docs/guides/sources.md" and "[stores.papers]" in block.code
    ]
    pipeline = declared(
        folders.mktemp("papers"), block.code.replace("https://search.example:9200/papers", index)
    )
    for name, store in pipeline.stores.items():
        yield (
            name,
            {key: value for key, value in store.options.items() if key not in ("api_key_env", "key_prefix")},
        )


def ranking_of(store: HttpSource, question: str = "When is the rent due?", **options: Any) -> Ranking:
    search = Search(**{"depth": 10, "timeout_s": 20.0, **options})
    [ranking] = (
        store.search_vectors("ns", np.array([[1, 0, 0, 0]], np.float32), search)
        if store.takes_vectors
        else store.search_text("ns", [question], search)
    )
    return ranking


def ids(ranking: Ranking) -> list[str]:
    return [hit.document_id for hit in ranking.hits]


def test_words_are_found_by_the_analyser_of_the_index_with_its_own_fields(
    stores: dict[str, HttpSource],
) -> None:
    ranking = ranking_of(stores["papers"])
    assert ids(ranking)[0] == "papers/miete", "which has the words twice"
    assert set(ids(ranking)) == {"papers/miete", "papers/kaution", "papers/leer"}, (
        "its stemmer reads rents as rent"
    )
    assert (ranking.total_matches, ranking.warnings) == (3, ())
    best = ranking.texts["papers/miete#papers"]
    assert (best.title, best.text) == ("Rent", "The rent is due on the third day.")
    assert best.metadata == {"topic": "Recht", "year": 2019, "published_at": "2024-05-01"}
    assert ranking.hits[0].score > ranking.hits[1].score > 0


def test_vectors_are_found_with_the_same_ids(stores: dict[str, HttpSource]) -> None:
    ranking = ranking_of(stores["paper_vectors"], depth=2)
    assert ids(ranking) == ["papers/miete", "papers/kaution"]
    # (1 + cosine) / 2, where the cosine of (1, 0, 0, 0) and (4, 3, 0, 0) is .8; the index keeps vectors in 8 bits.
    assert [hit.score for hit in ranking.hits] == pytest.approx([1.0, 0.9], abs=2e-3)


@pytest.mark.parametrize("name", ["papers", "paper_vectors"])
def test_the_server_filters_before_it_ranks(stores: dict[str, HttpSource], name: str) -> None:
    assert ids(ranking_of(stores[name], depth=1, filters={"topic": ["Geld", "Küche"]})) == ["papers/kaution"]
    assert ids(ranking_of(stores[name], depth=1, filters={"year": {"gte": 2020}, "topic": "Recht"})) == [
        "papers/kaution"
    ]
    assert ids(ranking_of(stores[name], filters={"published_at": "2024-05-01"})) == [
        "papers/miete",
        "papers/kaution",
    ]
    part = ranking_of(stores[name], depth=1, filters={"topic": {"contains": "eld"}})
    assert ids(part) == ["papers/kaution"]
    assert "filter 'topic': elasticsearch cannot express the whole condition" in part.warnings[0]


CONDITIONS: list[dict[str, Any]] = [
    {"topic": "Recht"},
    {"topic": ["Geld", "Küche des Hauses"]},
    {"topic": {"all": ["Recht", "Geld"]}},
    {"topic": {"not": "Recht"}},
    {"topic": {"exists": True}, "year": 2022},
    {"year": "2022"},
    {"year": {"gt": 2019, "lte": 2022}},
    {"year": {"not": [2019, 2022]}},
    {"frei": True},
    {"frei": "false"},
    {"frei": {"exists": False}},
    {"published_at": "2024-05-01T20:00:00Z"},
    {"published_at": {"gte": "2024-05-01T10:00:00Z"}},
]
BY_DAY: list[dict[str, Any]] = [
    {"published_at": wanted}
    for wanted in (
        "2024-05-01",
        {"gt": "2023-01-01"},
        {"gte": "2024-05-01"},
        {"lt": "2024-05-01"},
        {"lte": "2024-05-01"},
        "2024-05",
        {"gt": "2023-01"},
        {"lte": "2023-12"},
        {"gte": 2024},
        {"lte": "2023"},
        2024,
        ["2023", 2022],
    )
]
NAMES = {"topic": "thema.keyword", "year": "jahr", "published_at": "stand"}


@pytest.mark.parametrize(
    ("filters", "names"),
    [(filters, NAMES) for filters in CONDITIONS + BY_DAY]
    + [
        (filters, NAMES | {"published_at": "stand_als_text"})
        for filters in [*BY_DAY, {"published_at": "2024-05-01T22:00:00+02:00"}]
    ]
    + [
        (filters, NAMES | {"published_at": "stand_in_s"})
        for filters in [*BY_DAY, {"published_at": ["2024-05-01T20:00:00Z", "2022-02-02"]}]
    ],
    ids=str,
)
def test_the_server_lets_through_what_our_filter_lets_through(
    index: str, filters: dict[str, Any], names: dict[str, str]
) -> None:
    expanded = expanded_filters(Request(questions=("?",), filters=filters))
    sent, unsent = DIALECTS["elasticsearch"](expanded, names, {})
    with Elasticsearch(address(), request_timeout=30) as client:
        hits = client.search(index=index.rpartition("/")[2], query=sent)["hits"]["hits"]
    ours = {"topic": "thema", "year": "jahr", "published_at": "stand", "frei": "frei"}
    compiled = compile_filters(expanded)
    expected = {
        id_
        for id_, paper in PAPERS.items()
        if compiled.matches({name: paper.get(theirs) for name, theirs in ours.items()})
    }
    assert ({hit["_id"] for hit in hits}, unsent) == (expected, frozenset())
    assert 0 < len(expected) < len(PAPERS)


def test_dates_in_milliseconds_are_filtered_by_the_server_and_shown_where_it_writes_them_in_iso_8601(
    index: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name, options = next(options_on_the_page(index, tmp_path_factory))
    options |= {"filter_fields": {"published_at": "stand_in_ms"}, "published_at": "_source.stand_in_ms"}
    form = {"docvalue_fields": [{"field": "stand_in_ms", "format": "strict_date_time"}]}
    written = {**options, "published_at": "fields.stand_in_ms.0", "body": {**options["body"], **form}}
    by_date = {"published_at": {"gte": "2024-05-01T10:00:00Z"}}
    with closing(open_http_source(name, options)) as store:
        ranking = ranking_of(store, filters=by_date)
    assert (ids(ranking), ranking.hits[0].published_at) == (["papers/kaution"], None)
    unreadable = "source: papers: 1 of 1 hits have a value of 'published_at' that cannot be used"
    assert ranking.warnings == (unreadable,)
    with closing(open_http_source(name, written)) as store:
        ranking = ranking_of(store, filters=by_date)
    assert (ids(ranking), ranking.warnings) == (["papers/kaution"], ())
    assert ranking.hits[0].published_at == "2024-05-01T20:00:00.000Z"


def test_values_in_the_index_s_own_form_are_filtered_by_the_server_and_shown(
    index: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Dates in seconds, and objects in lists."""
    name, options = next(options_on_the_page(index, tmp_path_factory))
    options |= {"filter_fields": {"changed": "stand_in_s", "nr": "anhang.nr"}}
    options |= {"metadata": {"changed": "_source.stand_in_s", "nr": "_source.anhang.nr"}}
    with closing(open_http_source(name, options)) as store:
        for filters in ({"changed": {"gte": "2024-05-01T10:00:00Z"}}, {"changed": "2024-05-01", "nr": 1}):
            ranking = ranking_of(store, filters=filters)
            assert ids(ranking)[-1:] == ["papers/kaution"]
            assert ranking.warnings == ()
        metadata = ranking.texts["papers/kaution#papers"].metadata
    moment = datetime.fromisoformat("2024-05-01T20:00:00+00:00")
    assert metadata == {"changed": moment.timestamp(), "nr": [1], "published_at": PAPERS["kaution"]["stand"]}


def test_a_field_inside_nested_is_filtered_only_where_the_mapping_repeats_it_in_the_root(
    stores: dict[str, HttpSource],
) -> None:
    assert ids(ranking_of(stores["papers"], filters={"kapitel.nr": 1})) == []
    assert set(ids(ranking_of(stores["papers"], filters={"anhang.nr": 1}))) == {
        "papers/miete",
        "papers/kaution",
    }


def test_an_index_that_is_not_there_is_named(index: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    name, options = next(options_on_the_page(f"{index}-gone", tmp_path_factory))
    gone = pytest.raises(BadIndex, match="-gone/_search answers 404")
    with closing(open_http_source(name, options)) as store, gone:
        ranking_of(store)
