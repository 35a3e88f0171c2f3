"""Filters of a source: what is sent to the endpoint, what is compared here, and what the answer says of it."""

from __future__ import annotations

from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import pytest

from models.declarations.sources import FilterDialect
from tests.support.servers.search_server import SearchServer, says
from tests.support.stores.wiki_source import Opens, ids, ranking_of


def test_filters_compare_the_fields_of_each_hit(server: SearchServer, opens: Opens) -> None:
    source = opens()
    assert ids(ranking_of(source, depth=1, filters={"source_type": "faq"})) == ["wiki/keys"]
    assert parse_qs(urlsplit(server.requests[0].target).query)["limit"] == ["50"], "filtering is done here"
    assert ids(ranking_of(source, filters={"published_at": {"gte": "2024-01-01"}})) == ["wiki/7"]
    assert ids(ranking_of(source, exclude_ids=["wiki/7"])) == ["wiki/keys"]
    assert ids(ranking_of(source, filters={"source": "wiki"})) == ["wiki/7", "wiki/keys"]
    claiming = opens(metadata={"source": "kind"})
    assert ids(ranking_of(claiming, filters={"source": "wiki"})) == ["wiki/7", "wiki/keys"]
    unknown = ranking_of(source, filters={"year": 2024})
    assert unknown.hits == ()
    assert unknown.warnings == ("filter 'year': no document has this field, so nothing matches",)


def test_an_endpoint_that_has_filtered_decides_where_a_value_of_its_hit_cannot_be_read(
    server: SearchServer, opens: Opens
) -> None:
    """To the endpoint the second date is in milliseconds since 1970, and the third a year."""
    changes = ("2024-05-01", 1_700_000_000_000, "2024")
    server.answer = says({"items": [{"id": at, "rank": 1, "changed": at} for at in changes]})
    unreadable = "source: wiki: 2 of 3 hits have a value of 'published_at' that cannot be used"
    filters, lost = (
        {"published_at": {"gte": "2023-06-01"}},
        f"{unreadable}, and a condition on it leaves them out",
    )
    every, first = [f"wiki/{at}" for at in changes], ["wiki/2024-05-01"]
    by_dialect = {"elasticsearch": (every, unreadable), "pinecone": (first, lost)}
    for dialect, (expected, said) in by_dialect.items():
        ranking = ranking_of(opens(**{**PINECONE, "filter_dialect": dialect}), filters=filters)
        assert (ids(ranking), ranking.warnings[0]) == (expected, said)
    filtered_here = ranking_of(opens(), filters=filters)
    assert (ids(filtered_here), filtered_here.warnings) == (first, (lost,))
    # A condition that a key forces is compared here alone, and no warning names it.
    forced = ranking_of(
        opens(**{**PINECONE, "filter_dialect": "elasticsearch"}),
        forced_fields=("published_at",),
        filters=filters,
    )
    assert (ids(forced), forced.warnings) == (first, ())
    server.answer = says({"items": [{"id": 1, "rank": 1, "changed": 5}]})
    only = ranking_of(opens(**{**PINECONE, "filter_dialect": "elasticsearch"}), filters=filters)
    assert ids(only) == ["wiki/1"], "no hit has a date that can be read"


@pytest.mark.parametrize("condition", [{"not": "2023-11-14"}, {"exists": True}, {"exists": False}], ids=str)
def test_a_condition_that_is_compared_here_finds_no_hit_whose_value_cannot_be_read(
    server: SearchServer, opens: Opens, condition: Any
) -> None:
    """The date of the hit is the 14th of November 2023 in milliseconds."""
    server.answer = says({"items": [{"id": 1, "rank": 1, "changed": 1_700_000_000_000}]})
    ranking = ranking_of(opens(), filters={"published_at": condition})
    lost = "source: wiki: 1 of 1 hits have a value of 'published_at' that cannot be used, and a condition on it leaves them out"
    assert (ranking.hits, ranking.warnings) == ((), (lost,))


@pytest.mark.parametrize("dialect", get_args(FilterDialect))
def test_the_endpoint_alone_compares_a_condition_that_was_sent(
    server: SearchServer, opens: Opens, dialect: str
) -> None:
    """The endpoint ignores case, reads numbers in texts, and ranges over objects in lists."""
    hits: list[dict[str, Any]] = [
        {"id": 1, "brand": "acme", "price": "24.50 EUR", "shops": [{"floor": 1}, {"floor": 3}]},
        {"id": 2},
    ]
    server.answer = says({"items": [{"rank": 1, **hit} for hit in hits]})
    metadata = {"brand": "brand", "price": "price", "floor": "shops.0.floor"}
    source = opens(**{**PINECONE, "filter_dialect": dialect}, metadata=metadata)
    conditions: list[dict[str, Any]] = [{"brand": "ACME"}, {"price": 24.5}, {"floor": {"gte": 3}}]
    for filters in conditions:
        ranking = ranking_of(source, filters=filters)
        assert (ids(ranking), ranking.warnings) == (["wiki/1", "wiki/2"], ())


PINECONE: dict[str, Any] = {
    "method": "POST",
    "params": {},
    "body": {"text": "{question}", "top_k": "{depth}", "filter": "{filter}"},
    "filter_dialect": "pinecone",
    "filter_fields": {"source_type": "kind"},
}


def test_filters_are_sent_in_the_dialect_of_the_endpoint(server: SearchServer, opens: Opens) -> None:
    source = opens(**PINECONE)
    ranking = ranking_of(source, depth=1, filters={"source_type": ["faq"], "year": {"gte": 2020}})
    assert server.requests[0].body == {
        "text": "When is the rent due?",
        "top_k": 1,
        "filter": {"$and": [{"kind": {"$in": ["faq"]}}, {"year": {"$gte": 2020}}]},
    }
    assert (ids(ranking), ranking.warnings) == (["wiki/7"], ()), "its first hit"
    ranking_of(source)
    assert server.requests[1].body["filter"] == {}


def test_what_a_dialect_cannot_express_is_compared_here_among_more_hits_and_said(
    server: SearchServer, opens: Opens
) -> None:
    filters = {"source_type": ["page", "faq"], "published_at": {"gte": "2024-01-01"}}
    ranking = ranking_of(opens(**PINECONE), depth=1, filters=filters)
    sent = {"kind": {"$in": ["page", "faq"]}}
    assert server.requests[0].body == {"text": "When is the rent due?", "top_k": 50, "filter": sent}
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
    assert ranking_of(opens(max_hits=2), depth=2, filters=faq).warnings == (said,)
    assert ranking_of(opens(max_hits=2), depth=2, exclude_ids=["wiki/7"]).warnings == (said,)
    assert ranking_of(opens(max_hits=2), depth=1, filters=faq).warnings == (), "nothing is missing"
    assert ranking_of(opens(max_hits=3), depth=2, filters=faq).warnings == (), "the endpoint has no more"


@pytest.mark.parametrize("dialect", get_args(FilterDialect))
def test_a_forced_filter_is_compared_here_whatever_the_endpoint_makes_of_it(
    server: SearchServer, opens: Opens, dialect: str
) -> None:
    """The endpoint ignores filters; its second hit is another tenant's, and its third has no owner at all."""
    hits = [{"id": "acme", "owner": "acme"}, {"id": "other", "owner": "other"}, {"id": "x"}]
    server.answer = says({"items": hits})
    source = opens(**{**PINECONE, "filter_dialect": dialect}, metadata={"owner": "owner"})
    hidden, unfiltered = opens(**{**PINECONE, "filter_dialect": dialect}), opens()
    for forced in ("acme", {"contains": "acm"}, {"not": "other"}, {"exists": True}):
        filters = {"owner": {"all": [forced, {"not": "other"}]}}
        assert ids(ranking_of(source, forced_fields=("owner",), filters=filters)) == ["wiki/acme"]
        # An owner that no hit has may be anybody, also where nothing is sent.
        for lacking in (hidden, unfiltered):
            assert ranking_of(lacking, forced_fields=("owner",), filters={"owner": forced}).hits == ()


def test_no_warning_says_what_a_key_forces_or_how_much_that_hides(server: SearchServer, opens: Opens) -> None:
    """A request asks the endpoint for two hits, of which one is another tenant's."""
    server.answer = says({"items": [{"id": name, "owner": name, "rank": 1} for name in ("acme", "other")]})
    source = opens(**PINECONE, metadata={"owner": "owner"}, max_hits=2)
    forced = {"owner": {"all": [{"contains": "acm"}]}}
    ranking = ranking_of(source, depth=2, forced_fields=("owner",), filters=forced)
    assert (ids(ranking), ranking.warnings) == (["wiki/acme"], ())
    others = [{"id": "other", "owner": "other", "rank": 1, "changed": "soon"}, {"id": None}, {"id": 3}]
    server.answer = says({"items": [{"id": "acme", "owner": "acme", "rank": 1}, *others]})
    all_hits = opens(**PINECONE, metadata={"owner": "owner"}, max_hits=3)
    ranking = ranking_of(all_hits, depth=2, forced_fields=("owner",), filters=forced)
    assert (ids(ranking), ranking.warnings) == (["wiki/acme"], ())
    server.answer = says({"items": [{"id": name, "owner": name, "rank": 1} for name in ("acme", "other")]})
    own = {"id": {"contains": "c"}}
    ranking = ranking_of(source, depth=2, forced_fields=("owner",), filters={**forced, **own})
    assert ranking.warnings == (
        "source: wiki: filter 'id': pinecone cannot express the whole condition, which is compared here, among the first "
        "2 hits",
        "source: wiki: filter 'id': no hit has this field, so nothing matches: declare it in metadata",
    )
