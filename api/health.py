"""Whether the API lives and the installation can answer, and its metrics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Annotated, Literal
from urllib.parse import urlsplit

from anyio import to_thread
from chorale_client.wire_names import QUEUE_BULK, QUEUE_FUSION, QUEUE_INDEX, QUEUE_RETRIEVE
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from pydantic import BaseModel, Field
from redis import Redis
from redis.exceptions import AuthenticationError, RedisError

from api.caller import Caller, KeyFirst
from api.services import Services, ServicesDep
from config.pipeline_reader import declared_queues
from config.redis_client import explained
from models.errors import WrongDeclaration
from monitoring.checks import Running, sweeper, workers
from monitoring.exporter import CONTENT_TYPE, render, render_cells
from records.keys.grant import Grant
from records.keys.key_store import KeysUnavailable

log = logging.getLogger(__name__)

router = APIRouter(tags=["health"], route_class=KeyFirst)

READINESS_CACHED_FOR_S = 2.0
"""A result is reused for so long, because probes need no key, and a check asks every server."""
CELL_S = 0.5
"""A cell that has not answered by then counts as lost if another one can answer: a load balancer may wait for one second."""


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


class Missing(BaseModel):
    name: str = Field(description="`redis`, `database`, `pipeline`, `sweeper`, or a queue")
    cell: str | None = Field(None, description="The cell that lacks it; absent for what all cells share")
    why: str
    is_needed: bool = Field(description="Whether no search, or none of this cell, is answered without it")


class Readiness(BaseModel):
    is_ready: bool = Field(
        description="Whether searches are answered, by one cell at least, perhaps without some branches"
    )
    missing: list[Missing]


@router.get("/healthz")
async def check_life() -> Alive:
    """Whether the process serves.  Needs no key."""
    return Alive()


@router.get(
    "/readyz",
    response_model_exclude_none=True,
    responses={503: {"model": Readiness, "description": "No search is answered"}},
)
async def check_readiness(request: Request, response: Response, services: ServicesDep) -> Readiness:
    """Whether searches are answered, and what is missing, by name and cell.  Needs no key."""
    readiness = await to_thread.run_sync(readiness_of, request.app, services, limiter=services.few_threads)
    response.status_code = 200 if readiness.is_ready else 503
    return readiness


def readiness_of(app: FastAPI, services: Services) -> Readiness:
    """At most READINESS_CACHED_FOR_S old.  Blocks."""
    cache: ReadinessCache = app.state.readiness_cache
    return cache.read(services)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def read_metrics(grant: Annotated[Grant, Depends(Caller("admin"))], services: ServicesDep) -> Response:
    """The metrics of the installation and all its cells, as Prometheus reads them.  Needs a key of the operator: `admin` for every namespace."""
    grant.require_operators()
    cells = services.blocking_redis.by_name
    metrics = render_cells(cells) if services.settings.cells else render(cells[""])
    return Response(metrics, media_type=CONTENT_TYPE)


class ReadinessCache:
    """The latest check of the installation.  Thread-safe; one check runs at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readiness: Readiness | None = None
        self._read_at_s = 0.0

    def read(self, services: Services) -> Readiness:
        with self._lock:
            if self._readiness is None or time.monotonic() - self._read_at_s > READINESS_CACHED_FOR_S:
                missing = list(_missing(services))
                if missing != (self._readiness.missing if self._readiness else []):
                    log.warning("missing: %s", "; ".join(map(_line, missing)))
                lacking = {part.cell for part in missing if part.is_needed}
                cells = services.blocking_redis.by_name
                is_ready = None not in lacking and any(name not in lacking for name in cells)
                self._readiness = Readiness(is_ready=is_ready, missing=missing)
                self._read_at_s = time.monotonic()
            return self._readiness


def _missing(services: Services) -> Iterator[Missing]:
    try:
        has_tables = services.keys.has_tables()
    except KeysUnavailable:
        yield Missing(
            name="database", why="the database of keys, jobs and audit does not answer", is_needed=True
        )
    else:
        if not has_tables:
            yield Missing(name="database", why="its tables are not of this version", is_needed=True)
    branches: list[str] = []
    try:
        branches = declared_queues(services.settings.pipeline_file)
    except WrongDeclaration:
        yield Missing(name="pipeline", why="its file cannot be read here", is_needed=False)
    queues = (QUEUE_RETRIEVE, *branches, QUEUE_FUSION, QUEUE_INDEX, QUEUE_BULK)
    for cell, missing in _missing_by_cell(services, queues).items():
        yield from (part.model_copy(update={"cell": cell or None}) for part in missing)


def _missing_by_cell(services: Services, queues: Sequence[str]) -> Mapping[str, Sequence[Missing]]:
    cells = services.blocking_redis.by_name
    threads = ThreadPoolExecutor(len(cells), "chorale-readiness")
    checks = {
        name: threads.submit(
            _missing_at, redis, queues, services.settings.cells.get(name) or services.settings.redis_url
        )
        for name, redis in cells.items()
    }
    threads.shutdown(wait=False)
    late = wait(checks.values(), CELL_S).not_done
    while late and not any(_is_answering(check.result()) for check in checks.values() if check.done()):
        late = wait(late, return_when=FIRST_COMPLETED).not_done
    in_time = "it does not answer in time"
    return {name: check.result() if check.done() else [_no_redis(in_time)] for name, check in checks.items()}


def _is_answering(missing: Sequence[Missing]) -> bool:
    return not any(part.is_needed for part in missing)


def _no_redis(why: str) -> Missing:
    return Missing(name="redis", why=why, is_needed=True)


def _missing_at(redis: Redis, queues: Sequence[str], url: str | None) -> Sequence[Missing]:
    running = Running(redis, queues)
    try:
        findings = [*workers(running), *sweeper(running)]
    except RedisError as error:
        # The explanation names the address, which a probe without a key does not learn.
        log.warning("%s", explained(error, url))
        user = urlsplit(url or "").username or "default"
        is_refused = isinstance(error, AuthenticationError)
        return [_no_redis(f"it refuses the login {user!r}" if is_refused else "it does not answer")]
    return [
        Missing(name=finding.part, why=finding.what, is_needed=finding.is_needed)
        for finding in findings
        if finding.part
    ]


def _line(part: Missing) -> str:
    return f"{part.name}{f' of the cell {part.cell}' if part.cell else ''}: {part.why}"
