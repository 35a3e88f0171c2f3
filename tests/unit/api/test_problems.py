"""Problem documents: what each promises its reader."""

from __future__ import annotations

import pytest

from api.problems import TITLES, Problem


@pytest.mark.parametrize("code", TITLES)
def test_a_call_that_is_worth_repeating_is_told_when(code: str) -> None:
    problem = Problem(code, "why")
    assert ("Retry-After" in problem.headers) == problem.document["retryable"]
