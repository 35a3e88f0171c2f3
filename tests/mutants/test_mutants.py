"""Every main guarantee broken in one function: its tests notice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from tests.mutants import MUTANTS
from tests.mutants.breaking import Mutant, Outcome, running

pytestmark = [pytest.mark.long, pytest.mark.limit_s(400)]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[dict[Mutant, Future[Outcome]]]:
    """The outcomes of the mutants that pytest has selected; two run at once."""
    selected: list[Any] = [item for item in request.session.items if item.path == request.path]
    with running(tuple(item.callspec.params["mutant"] for item in selected)) as futures:
        yield futures


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.promise}: {mutant.fault}")
def test_a_broken_guarantee_turns_its_tests_red(
    mutant: Mutant, outcomes: dict[Mutant, Future[Outcome]]
) -> None:
    is_noticed, why = outcomes[mutant].result()
    assert is_noticed, why
