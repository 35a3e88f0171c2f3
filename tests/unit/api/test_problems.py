"""Problem documents: what each promises its reader."""

from __future__ import annotations

import pytest

from api.problems import TITLES, Problem


@pytest.mark.parametrize("code", TITLES)
def test_a_problem_says_when_to_repeat_the_call_if_it_is_retryable(code: str) -> None:
    problem = Problem(code, "why")
    assert ("Retry-After" in problem.headers) == problem.document["retryable"]
