"""The synchronous client keeps the contract of both clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client import Chorale

from tests.contracts.client import (
    AskingContract,
    DocumentsContract,
    EventsContract,
    HandleContract,
    NewClient,
)


@pytest.fixture
def new_client() -> Iterator[NewClient]:
    made: list[Chorale] = []

    def new(*args: str, **options: str) -> Chorale:
        made.append(Chorale(*args, **options))  # type: ignore[arg-type]
        return made[-1]

    yield new
    for one in made:
        one.close()


class TestAsking(AskingContract): ...


class TestHandles(HandleContract): ...


class TestEvents(EventsContract): ...


class TestDocuments(DocumentsContract): ...
