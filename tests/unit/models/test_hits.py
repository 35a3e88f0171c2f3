"""Rankings from foreign code are checked."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from models.hits import Hit, Ranking

GOOD = Hit("a#0", "a", 1.0, "wiki", "2026-01-01", "hash", None)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"document_id": 5}, "hit 1: its ids are 'a#0' and 5, which are not both text"),
        ({"passage_id": None}, "hit 1: its ids are None and 'a', which are not both text"),
        ({"score": "1.0"}, "hit 1: its score is '1.0', which is not a number"),
        ({"score": nan}, "hit 1: its score is nan, which is not a number"),
        ({"score": inf}, "hit 1: its score is inf, which is not a number"),
        ({"published_at": 2020}, "hit 1: published_at is 2020, which is neither text nor None"),
        ({"near_duplicate_group": 5}, "hit 1: near_duplicate_group is 5, which is neither text nor None"),
    ],
)
def test_a_field_of_another_type_is_named(changed: dict[str, Any], complaint: str) -> None:
    assert Ranking((GOOD, GOOD._replace(**changed))).complaint() == complaint


def test_the_fields_of_the_ranking_are_checked_too() -> None:
    wrong: Any = "5"
    complaint = Ranking((GOOD,), total_matches=wrong).complaint()
    assert complaint == "total_matches is '5', which is not a whole number"
    assert Ranking((GOOD,), warnings=(wrong, 5)).complaint() == "a warning is not text"  # type: ignore[arg-type]
    assert Ranking((GOOD, Hit("b#0", "b", 0))).complaint() is None
    assert Ranking((), total_matches=0, warnings=("slow",)).complaint() is None
