"""`chorale doctor` remarks that the running Redis is older than the tested one, in one line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cli.commands.doctor import examine
from cli.doctor.redis_server import TESTED, release
from cli.installation import Installation
from tests.support.pipelines.pipeline import ROOT


@pytest.mark.parametrize(
    ("info", "is_older"),
    [
        ({"redis_version": "6.2.14"}, True),
        ({"redis_version": "7.4.9"}, True),
        ({"redis_version": "7.4.11"}, False),
        ({"redis_version": "8.10.0"}, False),
        # Valkey calls itself Redis 7.2.4.
        ({"redis_version": "7.2.4", "server_name": "valkey"}, False),
    ],
)
def test_a_redis_that_is_older_than_the_tested_one_gets_a_remark(
    tmp_path: Path, info: dict[str, str], is_older: bool
) -> None:
    redis = SimpleNamespace(info=lambda: info)
    installation = SimpleNamespace(
        running_redis=lambda: redis, redis_url="redis://db", settings=SimpleNamespace(home=tmp_path)
    )
    (result,) = examine(cast(Installation, installation), {"redis release": release})
    expected = [f"Redis {info['redis_version']} is older than 7.4.11, with which Chorale is tested"]
    assert [finding.what for finding in result.findings] == (expected if is_older else [])
    assert (result.wrong, result.skipped) == ((), None)


def test_the_tested_redis_is_that_of_the_compose_file() -> None:
    tested = ".".join(map(str, TESTED))
    assert f"redis:{tested}-" in (ROOT / "docker-compose.yml").read_text("utf-8")
