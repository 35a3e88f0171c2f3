"""What a grant allows, and what it makes of a request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from chorale_client import InvalidRequest, make_request
from chorale_client.callbacks import Linked
from chorale_client.request import Request
from chorale_client.tenants import check_tenant, owned, tenant_of
from chorale_client.wire_reader import read_request

from fusion.conditions import without_filters
from records.keys.grant import SCOPES, Forbidden, Grant, OutOfScope, OverLimit

GRANT = Grant("k", "acme", frozenset({"docs"}), frozenset({"search:run"}))


def request_with(**options: Any) -> Request:
    return make_request(**{"questions": "bread", "request_id": "t.acme.1", "namespace": "docs", **options})


def test_an_id_says_its_tenant() -> None:
    assert owned("acme", "3f0c") == "t.acme.3f0c"
    assert tenant_of("t.acme.3f0c") == tenant_of("t.acme.a.b\n") == "acme"
    for name in ("3f0c", "t.acme", "t.acme.", "t..x", "t.ACME.x", "T.acme.x", " t.acme.x", "t.-a.x", ""):
        assert tenant_of(name) is None
    # A longer name with the same beginning is another tenant.
    assert not GRANT.owns("t.acme2.x")
    assert GRANT.owns(GRANT.new_id())
    assert GRANT.new_id() != GRANT.new_id()
    assert GRANT.new_id("a") == GRANT.new_id("a") == "t.acme.a"


@pytest.mark.parametrize("name", ["", "a.b", "A", "-a", "a b", "a" * 64, "é", "a\n"])
def test_a_tenant_s_name_leaves_no_doubt_where_it_ends(name: str) -> None:
    with pytest.raises(ValueError, match="a tenant is 1-63"):
        check_tenant(name)


ADMIN = replace(GRANT, scopes=frozenset({"admin"}))


def test_a_grant_has_its_scopes_and_admin_has_all_and_for_every_namespace_is_the_operator_s() -> None:
    GRANT.require("search:run")
    for scope in SCOPES[1:]:
        with pytest.raises(Forbidden, match=scope):
            GRANT.require(scope)
        ADMIN.require(scope)
    replace(ADMIN, namespaces=None).require_operators()
    for other in (ADMIN, replace(GRANT, namespaces=None)):
        with pytest.raises(Forbidden, match="'admin' for every namespace"):
            other.require_operators()


def test_another_namespace_and_another_id_are_unknown() -> None:
    with pytest.raises(OutOfScope):
        GRANT.applied(request_with(namespace="other"))
    for foreign in ("t.zenith.1", "plain", "t.acme2.1"):
        with pytest.raises(OutOfScope):
            GRANT.applied(request_with(request_id=foreign))
    assert replace(GRANT, namespaces=None).applied(request_with(namespace="other")).namespace == "other"


@pytest.mark.parametrize(
    ("limits", "options", "says"),
    [
        ({"max_top_k": 50}, {"top_k": 51}, "top_k: .* its maximum is 50"),
        ({"max_depth": 50}, {"depth": 51}, "depth: .* its maximum is 50"),
        ({"max_depth": 50}, {"top_k": 51}, "top_k: .* its maximum is 50"),
        ({"max_timeout_s": 1.5}, {"timeout_s": 1.6}, "timeout_s: .* its maximum is 1.5"),
        ({"max_questions": 2}, {"questions": ["a", "b", "c"]}, "questions: 3 is more"),
    ],
)
def test_a_limit_names_its_field_and_its_maximum(
    limits: dict[str, Any], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(OverLimit, match=f"^{says}"):
        replace(GRANT, **limits).applied(request_with(**options))


def test_what_the_caller_did_not_choose_is_lowered_and_what_it_chose_stays() -> None:
    tight = replace(GRANT, max_top_k=3, max_depth=20, max_timeout_s=1)
    lowered = tight.applied(request_with())
    assert (lowered.top_k, lowered.depth, lowered.effective_depth, lowered.timeout_s) == (3, 20, 20, 1)
    shallow = replace(GRANT, max_depth=3).applied(request_with())
    assert (shallow.top_k, shallow.effective_depth) == (3, 3)
    chosen = tight.applied(request_with(top_k=2, depth=10, timeout_s=0.5))
    assert (chosen.top_k, chosen.depth, chosen.timeout_s) == (2, 10, 0.5)
    assert GRANT.applied(request_with()) == request_with()


FORCED = replace(GRANT, filters={"customer": "acme", "year": {"gte": 2020}})


def test_the_forced_filter_stands_beside_what_is_asked_and_is_never_replaced() -> None:
    narrowed = FORCED.applied(request_with(filters={"customer": ["acme", "zenith"], "title": {"not": "x"}}))
    assert narrowed.filters == {
        "customer": {"all": ["acme", ["acme", "zenith"]]},
        "year": {"all": [{"gte": 2020}]},
        "title": {"all": [{"not": []}, {"not": "x"}]},
    }
    # A line of a job is narrowed as a search is, and workers read the request anew.
    line = make_request("bread", namespace="docs", filters={"customer": "zenith"})
    assert FORCED.narrowed(line).filters["customer"] == {"all": ["acme", "zenith"]}
    assert Request.model_validate_json(narrowed.model_dump_json()) == narrowed


def test_what_is_compared_exactly_stands_first_and_is_what_the_key_forces() -> None:
    """`search.filter_meanings` compares the first part of an `all` exactly, in the request of a key."""
    request = request_with(filters={"customer": {"all": ["acme", "beta"]}, "tags": {"all": ["1", "2"]}})
    forced = replace(GRANT, filters={"customer": []}).applied(request).filters
    assert forced == {
        "customer": {"all": [[], {"all": ["acme", "beta"]}]},
        "tags": {"all": [{"not": []}, {"all": ["1", "2"]}]},
    }
    assert GRANT.applied(request).filters == {
        "customer": {"all": [{"not": []}, "acme", "beta"]},
        "tags": {"all": [{"not": []}, "1", "2"]},
    }


def test_a_filter_too_deep_to_stand_beside_another_is_refused_by_name() -> None:
    def nested(levels: int) -> Any:
        return {"not": nested(levels - 1)} if levels else "x"

    FORCED.applied(request_with(filters={"title": nested(6)}))
    with pytest.raises(InvalidRequest, match="filters: 'title' is nested deeper than 6 levels"):
        FORCED.applied(request_with(filters={"title": nested(7)}))


def test_only_admin_may_have_tasks_called_at_an_end_and_nobody_outside_sends_celery_messages() -> None:
    request = request_with(on_end={"task": "shop.found", "queue": "shop"})
    with pytest.raises(Forbidden, match="admin"):
        GRANT.applied(request)
    assert ADMIN.applied(request) == request
    linked = Linked(task="shop.found", queue="shop")
    for name, value in {"linked": (linked,), "headers": {"tenant": "theirs"}}.items():
        with pytest.raises(InvalidRequest, match=f"{name}: unknown field"):
            GRANT.applied(request_with().model_copy(update={name: value}))


CHECKED = {
    *("request_id", "namespace", "questions", "top_k", "offset", "depth", "filters", "relax", "timeout_s"),
    *("on_end", "linked", "headers"),
}
"""What a grant checks or changes."""
HARMLESS = {
    *("v", "correlation_id", "tags", "branches", "weights", "fusion", "exclude_ids", "boosts", "thresholds"),
    *("fuse_by", "group_by", "rerank", "autocut", "diversity", "abstain", "snippet_chars", "include"),
    *("context_tokens", "context_around", "configuration", "needs_retrieval", "require", "min_branches"),
    *("on_missing", "hedge", "cache", "now", "rerank_depth"),
}
"""What a key may choose: no value of these shows a document outside the filter, or more of them."""


def test_a_condition_of_the_key_is_never_dropped() -> None:
    """Neither is the caller's own condition on the same field: both are one condition of the narrowed request."""
    request = request_with(
        filters={"customer": ["acme", "zenith"], "title": "x"},
        thresholds={"min_fused_score": 0.5},
        relax=["filters.customer", "filters.title", "thresholds.min_fused_score"],
    )
    narrowed = FORCED.applied(request)
    assert narrowed.relax == ("filters.title", "thresholds.min_fused_score")
    for count in range(3):
        filters = without_filters(narrowed, count).filters
        assert filters["customer"] == {"all": ["acme", ["acme", "zenith"]]}
        assert filters["year"] == {"all": [{"gte": 2020}]}
    assert read_request(narrowed.model_dump_json()).request == narrowed
    assert GRANT.applied(request).relax == request.relax


def test_every_field_of_a_request_was_weighed() -> None:
    """A new field fails here until somebody has decided what a stranger may do with it."""
    assert set(Request.model_fields) - {"traceparent"} == CHECKED | HARMLESS
