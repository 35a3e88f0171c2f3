"""Known weaknesses of the Redis that runs are named, and are no fault of the installation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from cli.commands.doctor import Examined, examine
from cli.doctor.redis_weaknesses import WEAKNESSES, known, weaknesses_of
from cli.installation import Installation


def examined(**info: str) -> Examined:
    redis = SimpleNamespace(info=lambda _section: info)
    (found,) = examine(cast(Installation, SimpleNamespace(running_redis=lambda: redis)), {"redis": known})
    return found


@pytest.mark.parametrize(
    ("version", "has"),
    [
        ("6.2.14", True),  # the bundled one
        ("6.2.19", True),
        ("6.2.20", False),
        ("7.0.15", True),  # this series was never mended
        ("7.4.5", True),
        ("7.4.6", False),
        ("8.0.3", True),
        ("8.4.0", False),
        ("8.10.0", False),
    ],
)
def test_a_version_has_a_weakness_until_its_series_was_mended(version: str, has: bool) -> None:
    assert ("CVE-2025-49844" in [one.cve for one in weaknesses_of(version)]) == has


def test_a_series_that_is_older_than_a_weakness_does_not_have_it() -> None:
    of_8_2 = next(one for one in WEAKNESSES if one.cve == "CVE-2025-62507")
    assert [of_8_2.is_in(version) for version in ((7, 4, 0), (8, 2, 2), (8, 2, 3))] == [False, True, False]


def test_the_bundled_version_has_all_of_them_but_those_of_later_series() -> None:
    assert {one.cve for one in WEAKNESSES} - {one.cve for one in weaknesses_of("6.2.14")} == {
        "CVE-2026-23479",
        "CVE-2025-62507",
    }


def test_an_incomplete_mend_is_a_weakness_of_its_own() -> None:
    found = {version: {one.cve for one in weaknesses_of(version)} for version in ("7.4.9", "7.4.10")}
    assert found["7.4.9"] - found["7.4.10"] == {"CVE-2026-66373"}
    assert "CVE-2026-25243" not in found["7.4.9"]


def test_the_doctor_names_them_as_a_remark() -> None:
    found = examined(redis_version="7.4.6")
    (remark,) = found.findings
    assert "Redis 7.4.6" in remark.what
    assert "CVE-2026-81934" in remark.what
    assert "CVE-2025-49844" not in remark.what
    assert "7.4.11" in remark.mend
    assert (found.wrong, found.skipped) == ((), None)


@pytest.mark.parametrize(
    "info",
    [
        {"redis_version": "8.10.1"},
        # Valkey calls itself Redis 7.2.4.
        {"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.9"},
    ],
)
def test_nothing_is_known_of_a_newer_or_another_server(info: dict[str, str]) -> None:
    assert examined(**info).findings == ()
