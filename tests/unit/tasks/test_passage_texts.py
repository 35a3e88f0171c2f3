"""Texts come from the store that found the passages, or from another one with the same documents."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from models.documents import PassageText
from models.errors import NotConfigured, StageFailure, StoreUnavailable
from search.deadline import Deadline
from tasks.request.composing.stored_passages import texts_of

TEXT = PassageText("a#0", "a", "Bread", "", "flour and water", {})


class Store:
    def __init__(self, answer: dict[str, PassageText] | Exception) -> None:
        self.answer, self.calls = answer, 0

    def texts(self, *_: object, **__: object) -> dict[str, PassageText]:
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def texts(stores: Mapping[str, Store], store: str, *, remaining_s: float = 5) -> dict[str, PassageText]:
    resources: Any = SimpleNamespace(
        written_stores=list(stores),
        store=stores.__getitem__,
    )
    return texts_of(resources, store, "default", ["a#0"], Deadline(remaining_s, "the store"))


@pytest.mark.parametrize(
    "failure", [NotConfigured("none"), StoreUnavailable("away"), KeyError("a"), MemoryError()]
)
def test_the_next_store_is_asked_if_the_first_one_has_no_texts(failure: Exception) -> None:
    other = Store({"a#0": TEXT})
    assert texts({"other": other, "own": Store(failure)}, "own") == {"a#0": TEXT}
    assert other.calls == 1


def test_a_failure_is_named_and_no_store_is_asked_when_the_time_is_over() -> None:
    foreign = Store(RuntimeError("no such column"))
    with pytest.raises(StageFailure) as error:
        texts({"own": foreign}, "own")
    assert (error.value.reason, error.value.detail) == ("error", "RuntimeError: no such column")
    # A store that is away is named before a store that holds no texts.
    stores = {"own": Store(NotConfigured("none")), "other": Store(StoreUnavailable("away"))}
    with pytest.raises(StoreUnavailable, match="away"):
        texts(stores, "own")
    with pytest.raises(TimeoutError):
        texts({"own": foreign}, "own", remaining_s=0)
    assert foreign.calls == 1
