"""What counts as a date in `published_at`, and what only looks like one."""

from __future__ import annotations

import pytest

from ingest.collection_rows import iso_moment


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (2024, "2024-01-01"),
        ("2024", "2024-01-01"),
        ("2024-03", "2024-03-01"),
        ("2024-05-01", "2024-05-01"),
        (20240501, "2024-05-01"),
        (" 20240501 ", "2024-05-01"),
        ("2024-W18-3", "2024-05-01"),
        ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00+00:00"),
        ("20240501T101010", "2024-05-01T10:10:10"),
    ],
)
def test_a_date_is_kept_as_iso_8601(value: object, moment: str) -> None:
    assert iso_moment(value) == moment


# In the first Python finds the 6th of October 1755, and in the second the 16th of January 1712.
SECONDS, MILLISECONDS = 1755100612, 1712011600000


@pytest.mark.parametrize(
    "value", [SECONDS, MILLISECONDS, -SECONDS, 20241301, 2024.0, True, "61790330,112148", "20240501101010"]
)
def test_a_number_is_not_a_date(value: object) -> None:
    assert iso_moment(value) is None
    assert iso_moment(str(value)) is None
