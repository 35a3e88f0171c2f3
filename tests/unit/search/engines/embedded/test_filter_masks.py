"""The largest filters: a search keeps its deadline, loses nothing of what it has judged, and holds up no other search."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from models.errors import StoreTimeout
from search import filters
from search.deadline import Deadline
from search.documents.lookups import DocumentVersion
from search.engines.embedded import filter_masks
from search.engines.embedded.filter_masks import Masks
from search.engines.embedded.passage_rows import Rows
from search.filters import compile_filters
from search.protocol import Search
from tests.unit.search.engines.embedded.rows import rows_of


class Ticks(Deadline):
    """A deadline that is over after so many checks."""

    def __init__(self, checks: int) -> None:
        super().__init__(checks, "the store")
        self.checks = checks

    @property
    def remaining_s(self) -> float:
        self.checks -= 1
        return float(self.checks)


class Watched(Mapping[str, Any]):
    """The fields of one document, which notice that a filter reads them."""

    def __init__(self, fields: Mapping[str, Any], read: Callable[[], None]) -> None:
        self._fields, self._read = fields, read

    def __getitem__(self, name: str) -> Any:
        self._read()
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


def rows_of_fields(fields: list[Mapping[str, Any]]) -> Rows:
    """Documents of one passage each."""
    passage_ids = [f"d{number}#0" for number in range(len(fields))]
    versions = [DocumentVersion(f"d{number}", of, None, None, None, None) for number, of in enumerate(fields)]
    return rows_of(list(range(len(fields))), passage_ids, versions)


def test_a_search_checks_its_deadline_after_each_document_and_the_next_one_goes_on_from_there() -> None:
    read: list[int] = []
    rows = rows_of_fields([Watched({"n": number}, partial(read.append, number)) for number in range(1_000)])
    masks = Masks()
    with pytest.raises(StoreTimeout):
        masks.allowed(rows, Search(1, {"n": {"gte": 500}}), Ticks(300))
    assert 0 < len(read) <= 301
    allowed = masks.allowed(rows, Search(1, {"n": {"gte": 500}}), Ticks(2_000)).rows
    assert allowed is not None
    assert np.flatnonzero(allowed).tolist() == list(range(500, 1_000))
    assert read == list(range(1_000)), "no document is judged twice"


def test_a_search_whose_deadline_is_over_judges_one_document_so_that_some_search_ends() -> None:
    rows, masks = rows_of_fields([{"n": number} for number in range(3)]), Masks()
    for _ in range(3):
        with pytest.raises(StoreTimeout):
            masks.allowed(rows, Search(1, {"n": 1}), Ticks(0))
    allowed = masks.allowed(rows, Search(1, {"n": 1}), Ticks(0)).rows
    assert allowed is not None
    assert allowed.tolist() == [False, True, False]


def test_while_one_filter_is_judged_searches_with_others_and_with_the_same_are_answered() -> None:
    answers: list[Any] = []
    masks = Masks()

    def ask(filters: Mapping[str, Any]) -> None:
        answers.append(masks.allowed(rows, Search(1, filters), Ticks(10_000)).rows)

    def ask_others() -> None:
        if threading.current_thread() is threading.main_thread():
            for filters in ({"n": 7}, {"n": {"lt": 3}}):
                other = threading.Thread(target=ask, args=[filters], daemon=True)
                other.start()
                other.join(20)

    rows = rows_of_fields([*({"n": number} for number in range(400)), Watched({"n": 400}, ask_others)])
    ask({"n": {"lt": 3}})
    assert [np.flatnonzero(one).tolist() for one in answers] == [[7], [0, 1, 2], [0, 1, 2]]


def test_the_results_of_filters_on_many_fields_are_kept_up_to_a_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filter_masks, "_MOST_CACHED_BYTES", 3_000)
    masks, rows = Masks(), rows_of_fields([{"n": number} for number in range(1_000)])
    for number in range(20):
        masks.allowed(rows, Search(1, {"n": number}), Ticks(10_000))
        masks.allowed(rows, Search(1, {"n": number, "m": {"not": 1}}), Ticks(10_000))
    assert sum(one.bytes for one in masks._verdicts.values()) <= 3_000 + 3_000


class Counted(str):
    """A text that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str(self) == other

    __hash__ = str.__hash__


@pytest.mark.parametrize("others", [[], ["2024-05-01"]], ids=["texts", "a date among them"])
def test_a_list_of_a_thousand_values_is_compared_with_a_thousand_values_in_a_thousand_steps(
    others: list[str],
) -> None:
    compiled = compile_filters({"tags": [*others, *(Counted(f"wanted {number}") for number in range(1_000))]})
    Counted.compared = 0
    assert not compiled.matches({"tags": [Counted(f"found {number}") for number in range(1_000)]})
    assert Counted.compared < 2_000


def test_two_hundred_ranges_read_the_dates_of_a_document_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    compiled = compile_filters({"on": {"all": [{"gte": "2024-01-01"}] * 200}})
    date_span = filters.date_span

    def reading(value: object) -> Any:
        read.append(value)
        return date_span(value)

    monkeypatch.setattr(filters, "date_span", reading)
    assert compiled.matches({"on": ["2024-05-01", "2023-05-01"]})
    assert len(read) == 2
