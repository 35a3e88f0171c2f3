"""One pipeline with the HTTP API for all tests of the folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from api import caller, limits
from console import site
from records.jobs.store import Jobs
from tests.integration.api.visitors import visitor
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import PATIENT
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer

FINDING = {"what": "<b>the disk</b> is full", "mend": "make room", "is_remark": False}
CHECKS = [
    {"check": "clock", "status": "well", "why": None, "findings": []},
    {"check": "disk", "status": "found", "why": None, "findings": [FINDING]},
]
SECRET = "a-secret-of-24-characters"
DOCTOR = ("sh", "-c", 'echo "$0"; exit 1', json.dumps({"checks": CHECKS}))
"""A command that prints what `chorale doctor --json` prints."""


@pytest.fixture(scope="package", autouse=True)
def _refused_soon() -> Iterator[None]:
    """In these tests a call without a valid key, or with too large a body, is refused sooner."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (caller, limits, site):
            patch.setattr(module, "REFUSED_AFTER_S", 0.02)
        yield


@pytest.fixture(scope="package")
def api_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    file = tmp_path_factory.mktemp("patient") / "pipeline.toml"
    file.write_text(PATIENT, encoding="utf-8")
    with (
        RedisServer() as server,
        RunningPipeline(server, alone=["chorale.hyde"], sweeper=True, pipeline_file=file) as pipeline,
    ):
        pipeline.index()
        yield pipeline


@pytest.fixture(scope="package")
def api(api_pipeline: RunningPipeline) -> Iterator[HttpApi]:
    with HttpApi(api_pipeline.resources.settings, doctor=DOCTOR) as server:
        yield server


@pytest.fixture
def acme(api: HttpApi) -> Iterator[httpx.Client]:
    """A client of the tenant `acme`, which may do everything."""
    with api.client("acme") as client:
        yield client


@pytest.fixture
def operator(api: HttpApi) -> Iterator[httpx.Client]:
    """A browser with every right."""
    with visitor(api) as browser:
        yield browser


@pytest.fixture(scope="package")
def idle_api() -> Iterator[HttpApi]:
    """An API whose requests nobody answers: no worker runs."""
    with serving_without_workers() as api:
        yield api


@contextmanager
def serving_without_workers() -> Iterator[HttpApi]:
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=[], environment={"CHORALE_WEBHOOK_SECRET": SECRET}) as pipeline,
        HttpApi(pipeline.resources.settings) as api,
    ):
        yield api


@pytest.fixture
def store(idle_api: HttpApi) -> Iterator[Jobs]:
    """The jobs of `idle_api`."""
    opened = Jobs(idle_api.settings.audit_database_url)
    yield opened
    opened.close()
