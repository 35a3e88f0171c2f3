"""An answer says what it compared otherwise, what nothing meets, and what has gone since it was found."""

from __future__ import annotations

from typing import Any

import structlog
from chorale_client.wire_names import Warned

from tests.integration.tasks.answers import ids
from tests.support.pipelines.one_process import OneProcess


def test_a_filter_of_another_type_finds_and_says_so_and_an_empty_one_means_all(here: OneProcess) -> None:
    for year in (2025, 2026):
        here.index({f"y{year}": ("Bread", f"Bread of {year}")}, namespace="years", year=year, domain="law")

    def asked(filters: dict[str, Any], **options: Any) -> tuple[list[str], tuple[str, ...]]:
        answer = here.ask("bread", namespace="years", filters=filters, **options)
        assert answer.status == "complete"
        assert all(warning.split()[0].rstrip(":") in set(Warned) for warning in answer.warnings)
        return sorted(ids(answer)), answer.warnings

    said = "they are compared by their meaning"
    number = f"filter 'year': the request has '2026', a text, and documents have 2026, a number: {said}"
    assert asked({"year": "2026"}) == (["y2026"], (number,))
    assert asked({"year": 2026}) == (["y2026"], ())
    assert asked({"year": [], "domain": []}) == (["y2025", "y2026"], ())
    met = 'filter \'domain\', \'year\': no document that may be found meets {"domain":"lwa","year":2026}'
    assert asked({"domain": "lwa", "year": 2026}) == ([], (met,))
    # BM25 alone does not tell whether the filter or the words found nothing.
    assert asked({"domain": "lwa"}, branches=["bm25"]) == ([], ())


def test_a_passage_that_has_gone_makes_room_for_the_next_hit(here: OneProcess) -> None:
    names = [f"b{place}" for place in range(4)]
    here.index({name: ("Bread", f"Bread {name}") for name in names}, namespace="going")
    options: dict[str, Any] = {"namespace": "going", "weights": {"bm25": 1.0, "vector": 0.01}, "top_k": 2}
    options["branches"] = ["bm25", "vector"]
    before = ids(here.ask("bread", cache="bypass", **options))
    request_id = here.submit("bread", cache="bypass", **options)
    here.work("chorale.bm25")
    here.resources.writing_store.delete("going", before[:1])
    with structlog.testing.capture_logs() as logs:
        here.work()
    answer = here.answer(request_id)
    assert answer.status == "complete"
    assert len(answer.hits) == 2
    assert before[0] not in ids(answer)
    assert all(hit.snippet for hit in answer.hits)
    [gone] = [one for one in logs if one["event"] == "passages gone"]
    assert answer.warnings == (
        f"document_missing: no text in the store for {gone['passages'][0]}; their hits are left out",
    )
