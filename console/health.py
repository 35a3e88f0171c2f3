"""Whether the installation is well: its processes, queues, breakers and what is missing, of each cell.  For the operator's
keys."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from anyio import to_thread
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from api.health import readiness_of
from config.redis_client import redis_ms
from console.charts import minute_bars
from console.pages import Page, Visit
from models.errors import WrongDeclaration
from monitoring import counting
from monitoring.checks import Running
from monitoring.exporter import render
from records.audit import queries

SIGNALS = (
    *(counting.IN_FLIGHT, counting.REFUSING, counting.OUTBOX, counting.OUTBOX_LIMIT),
    *(counting.QUARANTINE, counting.SWEEPER_ACTING, counting.SWEEPER_LAG),
)
"""Metrics that the page shows; their names are those of `/metrics`."""

MINUTES = 60
"""Of the charts."""


async def show(visit: Visit) -> dict[str, Any]:
    """Raises Forbidden for another key than the operator's."""
    visit.session.grant.require_operators()
    return await to_thread.run_sync(_state, visit)


def _state(visit: Visit) -> dict[str, Any]:
    services = visit.services
    readiness = readiness_of(visit.request.app.state.api, services)
    cells = services.blocking_redis
    now_ms = redis_ms(cells.by_name[cells.answering("")])
    state = {
        "is_ready": readiness.is_ready,
        "has_doctor": visit.request.app.state.doctor is not None,
        "missing": [part.model_dump(exclude_none=True) for part in readiness.missing],
        "last_hour": _last_hour(services.database, now_ms // queries.MINUTE_MS),
    }
    if not services.settings.cells:
        return state | _redis_state(visit, cells.by_name[""])
    lost = {part.cell for part in readiness.missing if part.name == "redis"}
    states = {
        name: None if name in lost else _cell_state(visit, redis) for name, redis in cells.by_name.items()
    }
    return state | {"cells": states}


def _cell_state(visit: Visit, redis: Redis) -> dict[str, Any] | None:
    """The state of a cell; None if the Redis of the cell does not answer."""
    try:
        return _redis_state(visit, redis)
    except RedisError:
        return None


def _redis_state(visit: Visit, redis: Redis) -> dict[str, Any]:
    """The processes, queues, findings and signals of one Redis."""
    broker_url = visit.services.settings.broker_url
    try:
        running = Running.from_pipeline(visit.pipeline, redis, broker_url=broker_url, reads_messages=False)
    except WrongDeclaration:  # `missing` says so
        running = Running(redis, (), broker_url=broker_url)
    metrics = {
        family.name: family.samples for family in text_string_to_metric_families(render(redis).decode())
    }
    return {
        **running.served(),
        # The login of the API may not read the outbox; `signals` have its length.
        "findings": [finding for finding in running.findings("outbox") if not finding["part"]],
        "signals": [
            {"name": series.name, "meaning": series.meaning, "value": value}
            for series in SIGNALS
            for value in ([sample.value for sample in metrics.get(series.name, ())] or (None,))
        ],
    }


def _last_hour(database: Engine, now: int) -> list[dict[str, Any]] | None:
    """The charts of the whole minutes before the minute `now`, of all tenants; None if the trail cannot be read."""
    try:
        by_minute = _minutes(database, now - MINUTES)
    except SQLAlchemyError:
        return None
    minutes = [by_minute.get(number) for number in range(now - MINUTES, now)]
    values: dict[str, list[float | None]] = {
        "requests a minute": [minute.requests if minute else 0 for minute in minutes],
        "% degraded or failed": [
            100 * minute.partial / minute.requests if minute else None for minute in minutes
        ],
        "ms, in which 95 % ended": [minute.p95_ms if minute else None for minute in minutes],
    }
    return [{"name": name, **minute_bars(series)} for name, series in values.items()]


@lru_cache(maxsize=1)
def _minutes(database: Engine, first: int) -> dict[int, queries.Minute]:
    """Reads the trail once a minute, however many visitors the page has."""
    return queries.minutes(database, first, MINUTES)


PAGES = (Page("/health", "Health", "health.html", show, ("admin",)),)
