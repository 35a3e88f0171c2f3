"""What every route needs: settings, the client, Redis and the database; opened and closed with the server."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from anyio import CapacityLimiter
from chorale_client import AsyncCells, AsyncChorale, Cells, Chorale
from fastapi import Depends, Request
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from api.redis_cells import SHORT_S, BlockingRedisCells, RedisCells, redis_urls
from api.waiting import Closing
from config.settings import Settings
from models.errors import ServiceError
from records.database import open_database, upgrade
from records.jobs.store import Jobs
from records.keys.key_store import KeyStore

log = logging.getLogger(__name__)

FEW_THREADS = 8
UPLOADS = 32
"""Uploads that a process reads at the same time; each has a thread."""
UPLOADS_OF_A_KEY = 4


@dataclass(frozen=True, slots=True)
class Services:
    """Shared by all requests of a process."""

    settings: Settings
    redis: RedisCells
    """For short commands on the event loop."""
    blocking_redis: BlockingRedisCells
    """For short commands of code that blocks."""
    client: AsyncCells
    """Asks, and waits, without blocking the event loop."""
    blocking_clients: Mapping[str, Chorale]
    """The client of each cell, by the name of the cell.  Their calls block: await them in a thread."""
    writers: Cells
    """The clients of all cells as one: documents go to the client of the cell that takes those of their namespace."""
    database: Engine
    """The tables of audit trail and jobs.  Its calls block: await them in a thread."""
    keys: KeyStore
    jobs: Jobs
    closing: Closing
    few_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(FEW_THREADS))
    """Threads for the lookup of keys and for readiness.  Slow calls run in other threads and cannot hold these."""
    uploads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(UPLOADS))
    """Threads for uploads, so that slow ones keep no thread from other calls."""
    uploads_of: Counter[str] = field(default_factory=Counter)
    """Uploads that are being read, by key."""


async def _services(request: Request) -> Services:
    """The dependency of a route that needs them.  Async: FastAPI calls other functions in a thread."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(_services)]


@asynccontextmanager
async def open_services(settings: Settings, closing: Closing) -> AsyncIterator[Services]:
    """Raises WrongDeclaration if no Redis is known."""
    urls = redis_urls(settings)
    try:
        upgrade(settings.audit_database_url)
    except (ServiceError, SQLAlchemyError) as error:
        # Searches of callers that are known already go on; `/readyz` names what is missing.
        log.warning("the audit database is not ready: %s", error)
    database = open_database(settings.audit_database_url)
    keys = KeyStore(settings.audit_database_url)
    jobs = Jobs(settings.audit_database_url)
    redis, blocking_redis = RedisCells(urls), BlockingRedisCells(urls)
    options: dict[str, Any] = {
        "broker_url": settings.broker_url,
        "answer_ttl_s": settings.answer_ttl_s,
        "replicas": settings.redis_replicas,
    }
    blocking_clients = {name: Chorale(url, **options) for name, url in urls.items()}
    writers = Cells(blocking_clients)
    # A short wait for a silent cell leaves time for the next one.
    short: dict[str, Any] = {"socket_timeout_s": SHORT_S} if settings.cells else {}
    client = AsyncCells({name: AsyncChorale(url, **options, **short) for name, url in urls.items()})
    try:
        yield Services(
            settings,
            redis,
            blocking_redis,
            client,
            blocking_clients,
            writers,
            database,
            keys,
            jobs,
            closing,
        )
    finally:
        await client.aclose()
        writers.close()
        await redis.aclose()
        blocking_redis.close()
        keys.close()
        jobs.close()
        database.dispose()
