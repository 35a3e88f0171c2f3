"""The console's page of health: breakers, the last hour, and what `chorale doctor` finds."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from chorale_client.keys import BREAKER

from tests.integration.api.visitors import record, visitor
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until


@pytest.fixture(autouse=True, scope="module")
def _recorded_request(api: HttpApi) -> None:
    # The names of the breakers are published with the counts of the first requests.
    record(api, "acme", "How is bread baked?")


def test_health_names_open_breakers_and_the_figures_of_the_metrics(
    api: HttpApi, operator: httpx.Client
) -> None:
    def acted_on() -> Any:
        """The lease of a sweeper is short, and a busy machine may lose it."""
        health = operator.get("/console/health.json").json()
        signals = {signal["name"]: signal["value"] for signal in health["signals"]}
        return (health, signals) if signals["chorale_sweeper_acting"] == 1 else None

    with api.redis() as redis:
        now_ms = redis.time()[0] * 1000
        opened = {"failures": 5, "opened_at": now_ms, "open_until": now_ms + 600_000, "reason": "timeout"}
        redis.hset(BREAKER + "hyde", mapping=opened)
        try:
            health, signals = until(acted_on)
            page = operator.get("/console/health").text
        finally:
            redis.delete(BREAKER + "hyde")
    (breaker,) = (finding["what"] for finding in health["findings"] if "hyde" in finding["what"])
    assert breaker.startswith("breaker hyde: not asked since ")
    assert breaker.endswith("5 failures in a row, the last: timeout")
    assert "breaker hyde: not asked since" in page
    assert signals["chorale_refusing"] == 0


def test_without_an_hour_of_requests_the_page_says_what_is_not_known(idle_api: HttpApi) -> None:
    with visitor(idle_api) as browser:
        assert len(browser.get("/console/health.json").json()["last_hour"]) == 3
        assert "unknown" in browser.get("/console/health").text


def test_the_operator_reads_what_doctor_finds_with_what_is_to_mend_first(
    api: HttpApi, idle_api: HttpApi, operator: httpx.Client
) -> None:
    checks = operator.get("/console/health/doctor.json").json()["checks"]
    assert [check["check"] for check in checks] == ["disk", "clock"]
    assert "&lt;b&gt;the disk&lt;/b&gt; is full" in operator.get("/console/health/doctor").text
    assert "/console/health/doctor" in operator.get("/console/health").text
    with visitor(idle_api) as without, visitor(api, namespaces=frozenset({"default"})) as other:
        assert other.get("/console/health/doctor").status_code == 403
        # Only `chorale serve` gives the command.
        assert without.get("/console/health/doctor").status_code == 404
        assert "/console/health/doctor" not in without.get("/console/health").text
