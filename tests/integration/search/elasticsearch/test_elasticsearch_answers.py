"""A request finds the same in Elasticsearch as in the embedded store, in the same order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from search.elasticsearch.store import ElasticsearchStore
from search.embedded.store import EmbeddedStore
from search.filters import compile_filters
from search.protocol import Search
from tests.contracts.store_documents import EAST, MANIFEST, document, questions
from tests.support.servers.elasticsearch_server import corner, opened
from tests.support.stores.passages import standard_library_passages

VALUES: list[Any] = [
    True,
    False,
    0,
    1,
    -1.5,
    2**53,
    2**53 + 1,
    1e300,
    "",
    "a",
    "A*b?",
    "x\\y",
    "ß",
    "STRASSE",
    "1",
]
VALUES += [
    "2024-05-01",
    "2024-05-01T00:00:00Z",
    "2024-05-01T23:30:00+02:00",
    "2024-05-02",
    "2023-12-31T12:00",
]
VALUES += [
    [],
    [1, "a", None],
    ["2024-05-01", "2024-05-03T01:00:00Z"],
    {"b": 1},
    {"b": ["a", {"c": "2024-05-02"}]},
    None,
]
FIELDS = ["a", "b", "a.b", "a.b.c", "weird \x1f*?\\ field"]


@pytest.fixture(scope="module")
def store() -> Iterator[ElasticsearchStore]:
    with corner() as prefix, opened(prefix, vectors=True) as store:
        yield store


def drawn_filter(drawn: random.Random, depth: int = 0) -> Any:
    plain = [value for value in VALUES if not isinstance(value, dict)]
    kind = drawn.choice(["value", "values", "range", "exists", "contains", "not", "all"])
    if kind == "values":
        return [value for value in drawn.sample(plain, 3) if not isinstance(value, list)]
    if kind == "range":
        bounds = [value for value in plain if isinstance(value, int | float) or str(value).startswith("202")]
        bounds = [bound for bound in bounds if not isinstance(bound, bool)]
        return {
            drawn.choice(["gt", "gte", "lt", "lte"]): drawn.choice(bounds) for _ in range(drawn.randint(1, 2))
        }
    if kind == "exists":
        return {"exists": drawn.random() < 0.5}
    if kind == "contains":
        return {"contains": drawn.choice(["a", "*", "?", "\\", "ss", "2024-05", "", 1, ["B?", "ſ"]])}
    if kind == "all" and depth < 3:
        return {"all": [drawn_filter(drawn, depth + 1) for _ in range(2)]}
    if kind == "not" and depth < 3:
        return {"not": drawn_filter(drawn, depth + 1)}
    return drawn.choice([value for value in plain if not isinstance(value, list)])


def test_any_filter_matches_what_it_matches_in_the_embedded_store(store: ElasticsearchStore) -> None:
    drawn = random.Random(20_240_501)
    known = {
        f"d{n:03}": {field: drawn.choice(VALUES) for field in FIELDS if drawn.random() < 0.7}
        for n in range(150)
    }
    store.create("filters", MANIFEST)
    store.upsert("filters", [document(name, "pear", metadata=fields) for name, fields in known.items()])
    some = 0
    for _ in range(250):
        filters = {drawn.choice(FIELDS): drawn_filter(drawn) for _ in range(drawn.randint(1, 2))}
        compiled = compile_filters(filters)
        expected = [name for name, fields in known.items() if compiled.matches(fields)]
        (ranking,) = store.search_text(
            "filters", ["pear"], Search(depth=1_000, filters=filters, timeout_s=30)
        )
        assert [hit.document_id for hit in ranking.hits] == expected, filters
        some += 0 < len(expected) < len(known)
    assert some > 100  # most questions have a term


def test_texts_have_the_scores_of_the_embedded_store(store: ElasticsearchStore, tmp_path: Path) -> None:
    passages = standard_library_passages(600)
    held = [
        document(f"d{n:03}", *passages[2 * n : 2 * n + 2], title=passages[2 * n].split("\n")[0][:60])
        for n in range(300)
    ]
    embedded = EmbeddedStore(tmp_path / "corpus")
    asked = [text.split("\n")[0] for text in passages[::40]] + [
        "the quick fox",
        "return return value",
        "über",
    ]
    for language in ("en", "it", "none"):
        manifest = replace(MANIFEST, language=language)
        rankings = []
        for one in (embedded, store):
            one.create(f"like-{language}", manifest)
            one.upsert(f"like-{language}", held)
            rankings.append(one.search_text(f"like-{language}", asked, Search(depth=50, timeout_s=30)))
        for ours, theirs in zip(*rankings, strict=True):
            assert [hit.passage_id for hit in theirs.hits][:20] == [hit.passage_id for hit in ours.hits][:20]
            assert [hit.score for hit in theirs.hits] == pytest.approx(
                [hit.score for hit in ours.hits], rel=1e-4
            )
        assert sum(len(ranking.hits) for ranking in rankings[0]) > 500
    embedded.close()


def test_a_document_with_thousands_of_passages_leaves_room_for_others(store: ElasticsearchStore) -> None:
    store.create("book", MANIFEST)
    store.upsert("book", [document("book", *["pear"] * 2_500)])
    store.upsert("book", [document(f"d{n:02}", "pear with some other words") for n in range(20)])
    (text,) = store.search_text("book", ["pear"], Search(depth=20, timeout_s=30))
    (near,) = store.search_vectors("book", questions(EAST), Search(depth=20, timeout_s=30))
    for ranking in (text, near):
        assert len({hit.document_id for hit in ranking.hits}) == 20
    assert [hit.document_id for hit in text.hits][-19:] == [f"d{n:02}" for n in range(19)]
