"""Guarantees broken by one line each, wherever the test needs no pipeline; `make mutants` breaks the others too, which
takes twenty minutes of processor time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.mutants import ALL
from tests.mutants.mutant import Mutant, run

WITHOUT_A_PIPELINE = (
    "tests/unit/",
    "tests/wire/",
    "tests/integration/inference/",
    "tests/integration/ledger/",
    "tests/integration/search/several_stores/",
    "tests/integration/search/test_http_source.py",
    "tests/integration/tasks/test_breaker_states.py",
    "tests/integration/tasks/test_queues.py",
)
QUICK = [mutant for mutant in ALL if mutant.test.startswith(WITHOUT_A_PIPELINE)]


@pytest.fixture(scope="module")
def said() -> Iterator[dict[Mutant, Future[tuple[bool, str]]]]:
    """What comes of each; two run at once."""
    pool = ThreadPoolExecutor(2)
    yield {mutant: pool.submit(run, mutant) for mutant in QUICK}
    pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.promise)
def test_a_broken_guarantee_turns_its_test_red(
    mutant: Mutant, said: dict[Mutant, Future[tuple[bool, str]]]
) -> None:
    noticed, how = said[mutant].result()
    assert noticed, how


@pytest.mark.parametrize("place", WITHOUT_A_PIPELINE)
def test_every_place_without_a_pipeline_has_its_mutants(place: str) -> None:
    assert [mutant for mutant in ALL if mutant.test.startswith(place)], "its tests may have moved"
