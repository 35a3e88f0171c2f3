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
from chorale_client.connections.failover import follow_primary
from fastapi import Depends, Request
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from api.waiting import Closing
from config.home import find_redis_url
from config.redis_client import open_redis
from config.settings import Settings
from models.errors import ServiceError, WrongDeclaration
from records.database import open_database, upgrade
from records.jobs.store import Jobs
from records.keys.key_store import KeyStore

log = logging.getLogger(__name__)

SHORT_S = 1.0
"""Socket timeout of the short commands: the count of a key's calls, and the sessions of the console.  A search has its own limit."""
FEW_THREADS = 8
UPLOADS = 32
"""Uploads that a process reads at the same time; each has a thread."""
UPLOADS_OF_A_KEY = 4


@dataclass(frozen=True, slots=True)
class Services:
    """Shared by all requests of a process."""

    settings: Settings
    redis: Redis
    """For short questions: gives up after SHORT_S.  Does not decode responses."""
    blocking_redis: BlockingRedis
    """The same for code that blocks; gives up after 2 s."""
    cells: Mapping[str, BlockingRedis]
    """The same for each cell by its name; empty without cells."""
    client: AsyncCells
    """Asks, and waits, without blocking the event loop."""
    blocking_client: Chorale
    """Asks the workers of this process' own Redis; its calls block: await them in a thread."""
    writers: Cells
    """The clients that hand in documents.  Their calls block: await them in a thread."""
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
    redis_url = settings.redis_url or find_redis_url(settings.home)
    if redis_url is None:
        raise WrongDeclaration(
            "no Redis is known: start `chorale up` in another terminal, or set CHORALE_REDIS_URL"
        )
    try:
        upgrade(settings.audit_database_url)
    except (ServiceError, SQLAlchemyError) as error:
        # Searches of callers that are known already go on; `/readyz` names what is missing.
        log.warning("the audit database is not ready: %s", error)
    database = open_database(settings.audit_database_url)
    keys = KeyStore(settings.audit_database_url)
    jobs = Jobs(settings.audit_database_url)
    redis = Redis.from_url(redis_url, socket_timeout=SHORT_S, socket_connect_timeout=SHORT_S)
    follow_primary(redis.connection_pool)
    blocking_redis = open_redis(redis_url)
    cells = {name: open_redis(url) for name, url in settings.cells.items()}
    options: dict[str, Any] = {
        "broker_url": settings.broker_url,
        "answer_ttl_s": settings.answer_ttl_s,
        "replicas": settings.redis_replicas,
    }
    blocking_client = Chorale(redis_url, **options)
    if settings.cells:
        writers = Cells({name: Chorale(url, **options) for name, url in settings.cells.items()})
        # A short wait for a silent cell leaves time for the next one.
        short = {**options, "socket_timeout_s": SHORT_S}
        client = AsyncCells({name: AsyncChorale(url, **short) for name, url in settings.cells.items()})
    else:
        writers = Cells({"": blocking_client})
        client = AsyncCells({"": AsyncChorale(redis_url, **options)})
    try:
        yield Services(
            settings,
            redis,
            blocking_redis,
            cells,
            client,
            blocking_client,
            writers,
            database,
            keys,
            jobs,
            closing,
        )
    finally:
        await client.aclose()
        writers.close()
        blocking_client.close()
        await redis.aclose()
        for cell in (blocking_redis, *cells.values()):
            cell.close()
        keys.close()
        jobs.close()
        database.dispose()
