"""A moment is written in one form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from api.timestamps import at, in_utc, rfc3339


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (at(0), "1970-01-01T00:00:00.000Z"),
        (at(1_795_672_259_676), "2026-11-26T05:50:59.676Z"),
        (datetime(2026, 11, 26, 5, 46, 24, 123_999, UTC), "2026-11-26T05:46:24.123Z"),
        (datetime(2026, 11, 26, 6, 46, 24, tzinfo=timezone(timedelta(hours=1))), "2026-11-26T05:46:24.000Z"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "0001-01-01T00:00:00.000+01:00"),
    ],
)
def test_a_moment_is_written_in_utc_with_milliseconds(moment: datetime, expected: str) -> None:
    assert rfc3339(moment) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-26T06:46:24+01:00", "2026-11-26T05:46:24.000Z"),
        ("2026-11-26T05:46:24.123456", "2026-11-26T05:46:24.123Z"),
        ("2026-11-26", "2026-11-26T00:00:00.000Z"),
        ("yesterday", "yesterday"),
    ],
)
def test_a_moment_of_a_caller_is_written_in_utc_and_another_text_stays(text: str, expected: str) -> None:
    assert in_utc(text) == expected
