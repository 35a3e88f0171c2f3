"""One pipeline with the HTTP API for all tests of the folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

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
DOCTOR = (sys.executable, "-c", f"import json; print(json.dumps({{'checks': {CHECKS!r}}})); exit(1)")
"""A command that prints what `chorale doctor --json` prints."""


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
        RunningPipeline(server, queues=[]) as pipeline,
        HttpApi(pipeline.resources.settings) as api,
    ):
        yield api


@pytest.fixture
def store(idle_api: HttpApi) -> Iterator[Jobs]:
    """The jobs of `idle_api`."""
    opened = Jobs(idle_api.settings.audit_database_url)
    yield opened
    opened.close()
