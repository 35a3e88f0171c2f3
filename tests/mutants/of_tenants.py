"""Promises about keys, and about what tenants learn of each other."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Promise

_OVER_HTTP = "tests/integration/api/test_tenants.py"

PROMISES = (
    Mutant(
        "No document outside a key's filter is ever in an answer or a count, whatever the request filters for",
        "access/grant.py",
        "filters[name] for filters in (forced, asked) if name in filters]",
        "filters[name] for filters in (asked, forced) if name in filters][:1]",
        "tests/integration/access/test_forced_filters.py::test_whatever_is_asked_nothing_of_other_documents_comes_through",
    ),
    Mutant(
        "No warning tells a key with a filter which fields the documents of others have",
        "search/filters.py",
        'if not (isinstance(wanted, Mapping) and "all" in wanted)',
        "if True",
        "tests/integration/access/test_forced_filters.py::test_whatever_is_asked_nothing_of_other_documents_comes_through",
    ),
    Mutant(
        "Another tenant's id and an unknown id get the same response on every route",
        "access/grant.py",
        "        return tenant_of(id_) == self.tenant",
        "        return tenant_of(id_) is not None",
        f"{_OVER_HTTP}::test_another_s_id_and_an_unknown_id_are_the_same_404",
    ),
    Promise("Every route of the API is attacked by the tests", f"{_OVER_HTTP}::test_every_route_is_attacked"),
    Promise(
        "Fuzzed calls show nothing of another tenant",
        f"{_OVER_HTTP}::test_ten_thousand_fuzzed_calls_show_nothing_of_another_tenant",
    ),
    Mutant(
        "A tenant never gets an answer from the cache that another tenant asked for",
        "tasks/request/planning.py",
        '        options["tenant"] = tenant',
        "        pass",
        "tests/integration/tasks/test_asked_before.py::test_a_cached_answer_is_never_given_to_another_tenant",
    ),
    Mutant(
        "A search never waits for an equal one of another tenant",
        "tasks/request/planning.py",
        "    if (tenant := tenant_of(request.request_id)) is not None:",
        "    if (tenant := tenant_of(request.request_id)) is None:",
        "tests/integration/tasks/test_asked_before.py::test_a_search_never_follows_one_of_another_tenant",
    ),
    Mutant(
        "An expired or revoked key is a wrong key",
        "access/key_store.py",
        'found.key.state(self._now_ms()) != "active"',
        "False",
        "tests/integration/access/test_key_store.py::test_a_wrong_an_unknown_an_expired_and_a_revoked_key_are_the_same",
    ),
    Mutant(
        "A revoked key is refused within a second in every process",
        "access/key_store.py",
        "self._clock_s() - cached.read_at_s < CACHED_FOR_S",
        "True",
        "tests/integration/access/test_key_store.py::test_a_key_that_another_process_revoked_works_for_a_second_at_most",
    ),
    Mutant(
        "No secret of a key is stored",
        "access/key.py",
        "secret.encode()).hexdigest()",
        "secret.encode()).hexdigest() + secret",
        "tests/integration/access/test_key_store.py::test_the_secret_is_nowhere_in_the_database",
    ),
    Mutant(
        "A key sends no Celery messages to other applications",
        "access/grant.py",
        "        if request.linked:",
        "        if False:",
        "tests/unit/access/test_grant.py::test_nobody_outside_sends_celery_messages",
    ),
)
