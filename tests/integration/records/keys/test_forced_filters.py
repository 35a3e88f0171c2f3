"""No answer shows a document outside a key's filter, or that there is one, whatever the request filters for.

Each key is asked in a namespace with the documents of everybody, and in one with only those that it may see.  Both must give
the same hits, counts and warnings: otherwise something of the other documents came through.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from chorale_client import InvalidRequest, make_request
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from records.keys.grant import Grant
from search.filter_meanings import expanded_filters
from search.filters import compile_filters
from search.protocol import Search
from tests.contracts.store_documents import EAST, MANIFEST, document, questions
from tests.support.stores.one_engine import OneEngine, embedded_store

FORCED: tuple[dict[str, Any], ...] = (
    {"customer": "acme"},
    {"customer": ["acme", "beta"]},
    {"customer": {"not": "zenith"}},
    {"customer": {"exists": False}},
    {"year": {"gte": 2020, "lt": 2023}},
    {"tags": {"contains": "x"}},
    {"customer": "acme", "year": {"not": {"gt": 2021}}},
    {"inside.of": "acme"},
    {"customer": {"all": ["acme", "beta"]}},
)
VALUES: list[Any] = ["acme", "beta", "zenith", "x", "xy", 2019, 2020, 2021.5, 2024, True, "2022-05-01", ""]


def drawn_fields(drawn: random.Random) -> dict[str, Any]:
    fields = {
        "customer": drawn.choice(["acme", "beta", "zenith", ["acme", "zenith"], ["acme", "beta"], None, 7]),
        "year": drawn.choice([2019, 2020, 2021.5, [2019, 2024], "2022-05-01", None]),
        "tags": drawn.choice(["x", ["xy", "z"], [], None]),
        "inside": {"of": drawn.choice(["acme", "zenith"])},
    }
    if fields["customer"] == "zenith":
        # A field that nobody else has.
        fields["secret"] = drawn.choice(VALUES)
    return {name: value for name, value in fields.items() if drawn.random() < 0.85}


@dataclass(frozen=True, slots=True)
class Corpus:
    store: OneEngine
    fields: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    drawn = random.Random(20_261_123)
    fields = {f"d{number:03}": drawn_fields(drawn) for number in range(60)}
    store = embedded_store(tmp_path_factory.mktemp("corpus"))
    documents = {name: document(name, "pear", metadata=metadata) for name, metadata in fields.items()}
    store.create("everybody", MANIFEST)
    store.upsert("everybody", list(documents.values()))
    for number, forced in enumerate(FORCED):
        compiled = compile_filters(forced)
        own = [
            documents[name]
            for name, metadata in fields.items()
            if compiled.matches({"source": "docs", **metadata})
        ]
        assert 0 < len(own) < len(documents)
        store.create(f"own-{number}", MANIFEST)
        store.upsert(f"own-{number}", own)
    yield Corpus(store, fields)
    store.close()


NAMES = st.sampled_from(
    ["customer", "year", "tags", "inside", "inside.of", "secret", "source", "nowhere", "all"]
)
SCALARS = st.sampled_from(VALUES)
NUMBERS_AND_DATES = st.sampled_from([2019, 2020, 2021.5, "2022-05-01"])
CONDITIONS: st.SearchStrategy[Any] = st.deferred(
    lambda: st.one_of(
        SCALARS,
        st.lists(SCALARS, max_size=3),
        st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), NUMBERS_AND_DATES, min_size=1),
        st.fixed_dictionaries({"exists": st.booleans()}),
        st.fixed_dictionaries({"contains": st.one_of(SCALARS, st.lists(SCALARS, max_size=2))}),
        st.fixed_dictionaries({"not": CONDITIONS}),
        st.fixed_dictionaries({"all": st.lists(CONDITIONS, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"not": CONDITIONS, "gte": NUMBERS_AND_DATES}),
    )
)
FILTERS = st.dictionaries(NAMES, CONDITIONS, max_size=3)


def answers(corpus: Corpus, namespace: str, filters: dict[str, Any]) -> list[Any]:
    search = Search(depth=1_000, filters=filters, timeout_s=30.0)
    rankings = [
        *corpus.store.search_text(namespace, ["pear"], search),
        *corpus.store.search_vectors(namespace, questions(EAST), search),
        corpus.store.list_documents(namespace, search, order_by="year", descending=True),
    ]
    return [
        (sorted(hit.document_id for hit in one.hits), one.total_matches, one.warnings) for one in rankings
    ]


@settings(max_examples=50, deadline=None)
@given(number=st.integers(0, len(FORCED) - 1), filters=FILTERS)
def test_whatever_is_asked_nothing_of_other_documents_comes_through(
    corpus: Corpus, number: int, filters: dict[str, Any]
) -> None:
    grant = Grant("k", "acme", None, frozenset({"search:run"}), filters=FORCED[number])
    try:
        request = grant.applied(make_request("pear", request_id="t.acme.1", filters=filters))
    except InvalidRequest:  # refused by name
        assume(False)
    narrowed = expanded_filters(request)
    answered = answers(corpus, "everybody", narrowed)
    forced = compile_filters(FORCED[number])
    wanted = compile_filters(expanded_filters(make_request("pear", filters=filters)))
    expected = [
        name
        for name, metadata in corpus.fields.items()
        if forced.matches({"source": "docs", **metadata}) and wanted.matches({"source": "docs", **metadata})
    ]
    assert [ids for ids, _, _ in answered] == [expected] * 3
    assert {total for _, total, _ in answered} <= {len(expected), None}
    assert answered == answers(corpus, f"own-{number}", narrowed)
