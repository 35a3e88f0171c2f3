"""Traces of real requests: workers in processes of their own, and a collector that stands for any other."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from chorale_client.connections.urls import celery_url
from chorale_client.keys import METRICS, OUTBOX
from chorale_client.wire_names import QUEUE_RETRIEVE, TASK_RETRIEVE

from monitoring.tracing import EXPORT_LIMIT_S
from tests.support.pipelines.bulk import SERVED
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.collector import Collector, collector
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.waiting import until

pytestmark = pytest.mark.slow

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLERS = f"00-{TRACE}-{CALLER}-01"


BRANCHES = {"search chorale.bm25", "search chorale.vector", "search chorale.hyde"}


def preload(collected: Collector) -> str:
    """What a user's worker does who wants Celery's own spans too; the sweeper exports ours alone."""
    return f"""
import os
os.environ |= {{"OTEL_EXPORTER_OTLP_ENDPOINT": {collected.url!r}, "OTEL_BSP_SCHEDULE_DELAY": "100"}}
if os.environ["CHORALE_TEST_PROCESS"] != "sweeper":
    from opentelemetry.instrumentation.celery import CeleryInstrumentor
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    CeleryInstrumentor().instrument()
"""


@pytest.fixture(scope="module")
def collected() -> Iterator[Collector]:
    need("opentelemetry.sdk", "`make tracing` installs it")
    with collector() as server:
        yield server


@pytest.fixture(scope="module")
def instrumented(collected: Collector) -> Iterator[RunningPipeline]:
    """Every process has opentelemetry-instrumentation-celery beside our own spans."""
    need("opentelemetry.instrumentation.celery", "`make dev` installs it")
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=[], sweeper=True, preload=preload(collected)) as pipeline,
    ):
        pipeline.index()
        pipeline.start("all", queue=SERVED)
        pipeline.wait_ready()
        yield pipeline


def spans_of(collected: Collector, trace: str) -> dict[str, Any]:
    """Our spans by name; fails if one is doubled."""
    spans = [span for span in list(collected.spans) if span.trace_id.hex() == trace]
    assert len({span.name for span in spans}) == len(spans)
    return {span.name: span for span in spans}


def test_one_trace_leads_from_the_caller_to_the_fusion(
    instrumented: RunningPipeline, collected: Collector
) -> None:
    options: dict[str, Any] = {"cache": "bypass", "timeout_s": 20, "traceparent": CALLERS}
    assert instrumented.client().retrieve("Who pays for repairs?", **options).status == "complete"
    until(lambda: "retrieval default" in spans_of(collected, TRACE))
    spans = spans_of(collected, TRACE)
    assert {name for name in spans if "search" in name} == BRANCHES, "no branch has a second span"
    request, fusion = spans["retrieval default"], spans["fuse"]
    assert request.parent_span_id.hex() == CALLER
    assert {spans[name].parent_span_id for name in ("fuse", *BRANCHES)} == {request.span_id}
    assert {link.span_id for link in fusion.links} == {spans[name].span_id for name in BRANCHES}
    # The spans of Celery's own instrumentation stand in traces of their own.
    until(lambda: collected.named("run/chorale.search.bm25"))
    assert TRACE not in {span.trace_id.hex() for span in collected.named("run/chorale.search.bm25")}


@pytest.mark.parametrize("caller", ["an instrumented Celery application", "a call over HTTP"])
def test_a_trace_is_handed_on_from_the_headers_of_a_message_or_of_a_call(
    instrumented: RunningPipeline, collected: Collector, caller: str
) -> None:
    trace = TRACE[::-1] if "Celery" in caller else f"{TRACE[:-1]}f"
    headers = {"traceparent": f"00-{trace}-{CALLER}-01"}
    fields = {"questions": ["bread"], "cache": "bypass", "timeout_s": 20}
    if "Celery" in caller:
        app = Celery("web", broker=celery_url(instrumented.server.url), set_as_current=False)
        with app.connection_for_write() as connection:
            message = {"kwargs": {"request": fields}, "queue": QUEUE_RETRIEVE, "headers": headers}
            app.send_task(TASK_RETRIEVE, connection=connection, **message)
        app.close()
    else:
        with HttpApi(instrumented.resources.settings) as api, api.client("acme") as web:
            assert web.post("/v1/searches", json=fields, headers=headers).status_code == 200
            wrong = web.post("/v1/searches", json=fields, headers={"traceparent": "none"})
            assert wrong.status_code == 200, "a wrong header is ignored"
    until(lambda: "retrieval default" in spans_of(collected, trace))
    assert spans_of(collected, trace)["retrieval default"].parent_span_id.hex() == CALLER


def stops_with(endpoint: str) -> None:
    """Checks that a sweeper stops by itself after it has reported a request that nobody worked on."""
    preload = f"import os; os.environ['OTEL_EXPORTER_OTLP_ENDPOINT'] = {endpoint!r}"
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=[], sweeper=True, preload=preload) as pipeline,
    ):
        assert pipeline.client().retrieve("bread", timeout_s=0.1, traceparent=CALLERS).status == "failed"
        until(lambda: pipeline.redis.exists(METRICS) and not pipeline.redis.xlen(OUTBOX))
        pipeline.processes["sweeper"].terminate()
        assert pipeline.processes["sweeper"].wait(60) == 0


def test_a_sweeper_that_stops_sends_its_last_spans_and_waits_for_no_collector_that_never_answers() -> None:
    need("opentelemetry.sdk", "`make tracing` installs it")
    with collector() as collected:
        stops_with(collected.url)
        assert "retrieval default" in spans_of(collected, TRACE)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        stops_with(f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert EXPORT_LIMIT_S < 10, "docker and `chorale up` wait ten seconds"
