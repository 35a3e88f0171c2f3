"""Known weaknesses of the Redis that runs are named, and are no fault of the installation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from cli.commands.doctor import Examined, examine
from cli.doctor.redis_weaknesses import known, weaknesses_of
from cli.installation import Installation


def examined(**info: str) -> Examined:
    redis = SimpleNamespace(info=lambda _section: info)
    (found,) = examine(cast(Installation, SimpleNamespace(running_redis=lambda: redis)), {"redis": known})
    return found


@pytest.mark.parametrize(
    ("weakness", "with_it", "without"),
    [
        # 6.2.14 is the bundled one; the series 7.0 was never mended.
        ("CVE-2025-49844", "6.2.14 6.2.19 7.0.15 7.4.5 8.0.3", "6.2.20 7.4.6 8.4.0 8.10.0"),
        # A series that is older than a weakness does not have it.
        ("CVE-2025-62507", "8.2.2", "6.2.14 7.4.0 8.2.3"),
        ("CVE-2026-23479", "", "6.2.14"),
        # An incomplete mend is a weakness of its own.
        ("CVE-2026-66373", "7.4.9", "7.4.10"),
        ("CVE-2026-25243", "", "7.4.9"),
    ],
)
def test_a_version_has_a_weakness_until_its_series_was_mended(
    weakness: str, with_it: str, without: str
) -> None:
    has = dict.fromkeys(with_it.split(), True) | dict.fromkeys(without.split(), False)
    assert {version: weakness in [each.cve for each in weaknesses_of(version)] for version in has} == has


def test_the_doctor_names_them_as_a_remark() -> None:
    result = examined(redis_version="7.4.6")
    (remark,) = result.findings
    assert all(part in remark.what for part in ("Redis 7.4.6", "CVE-2026-81934"))
    assert "CVE-2025-49844" not in remark.what
    assert "7.4.11" in remark.mend
    assert (result.wrong, result.skipped) == ((), None)


def test_nothing_is_known_of_a_newer_or_another_server() -> None:
    assert examined(redis_version="8.10.1").findings == ()
    # Valkey calls itself Redis 7.2.4.
    valkey = examined(redis_version="7.2.4", server_name="valkey", valkey_version="8.1.9")
    assert valkey.findings == ()
