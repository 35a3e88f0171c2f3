"""Every main guarantee broken by one line: its named test notices."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import ALL
from tests.mutants.mutant import Mutant, run
from tests.support.servers.services import missing

ROOT = Path(__file__).parents[2]
SHARE = int(os.environ.get("CHORALE_TEST_MUTANTS", "1"))
"""With 4, every fourth mutant runs, and after the next commit the one after it."""


def turn() -> int:
    counted = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return int(counted.stdout or 0) % SHARE


CHOSEN = ALL[turn() :: SHARE]

pytestmark = [pytest.mark.slow, pytest.mark.limit_s(400)]


@pytest.fixture(scope="module")
def said(request: pytest.FixtureRequest) -> Iterator[dict[Mutant, Future[tuple[bool, str]]]]:
    """What comes of each mutant that is asked for; two run at once."""
    asked: list[Any] = [
        item.callspec.params["mutant"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == "test_a_broken_guarantee_turns_its_test_red"
    ]
    pool = ThreadPoolExecutor(2)
    yield {mutant: pool.submit(run, mutant) for mutant in asked}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("mutant", CHOSEN, ids=lambda mutant: mutant.promise)
def test_a_broken_guarantee_turns_its_test_red(
    mutant: Mutant, said: dict[Mutant, Future[tuple[bool, str]]]
) -> None:
    noticed, how = said[mutant].result()
    if not noticed and "skipped" in how and "passed" not in how:
        missing(f"the test of this mutant was skipped: {how}")
    assert noticed, how
