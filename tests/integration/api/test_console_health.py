"""The console's page of health: breakers, the last hour, and what `chorale doctor` finds."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from chorale_client.keys import BREAKER
from sqlalchemy import Engine

from console.health import _minutes
from records.audit import queries
from tests.integration.api.test_audit import wait_listed
from tests.integration.api.visitors import asked, visitor
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until


def test_health_names_open_breakers_and_the_figures_of_the_metrics(
    api: HttpApi, operator: httpx.Client
) -> None:

    def signals_of(health: dict[str, Any]) -> dict[str, float]:
        return {signal["name"]: signal["value"] for signal in health["signals"]}

    def acted_on() -> Any:
        """The lease of a sweeper is short, and a busy machine may lose it."""
        health = operator.get("/console/health.json").json()
        return health if signals_of(health)["chorale_sweeper_acting"] == 1 else None

    # The names of the breakers are published with the counts of the first requests.
    request_id = asked(operator, "How is bread baked?")["request_id"]
    with api.client() as client:
        wait_listed(client, request_id)
    with api.redis() as redis:
        now_ms = redis.time()[0] * 1000
        opened = {"failures": 5, "opened_at": now_ms, "open_until": now_ms + 600_000, "reason": "timeout"}
        redis.hset(BREAKER + "hyde", mapping=opened)
        try:
            health: dict[str, Any] = until(acted_on)
            page = operator.get("/console/health").text
        finally:
            redis.delete(BREAKER + "hyde")
    (breaker,) = (finding for finding in health["findings"] if "hyde" in finding["what"])
    assert breaker["what"].startswith("breaker hyde: not asked since ")
    assert breaker["what"].endswith("5 failures in a row, the last: timeout")
    assert "breaker hyde: not asked since" in page
    assert signals_of(health)["chorale_refusing"] == 0


def test_health_draws_the_last_hour_and_says_what_is_not_known(
    api: HttpApi, idle_api: HttpApi, operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_id = asked(operator, "How is bread baked?")["request_id"]
    with api.client() as client:
        wait_listed(client, request_id)
    minutes = queries.minutes

    def up_to_now(engine: Engine, first: int, count: int) -> dict[int, queries.Minute]:
        return {number - 1: of for number, of in minutes(engine, first + 1, count).items()}

    monkeypatch.setattr(queries, "minutes", up_to_now)
    _minutes.cache_clear()
    charts = operator.get("/console/health.json").json()["last_hour"]
    requests, partial, _ = charts
    assert requests["most"] >= 1
    assert len(requests["bars"]) == 60
    # A minute in which nobody asked has no share of partial answers.
    assert len(partial["bars"]) < 60
    with visitor(idle_api) as browser:
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
