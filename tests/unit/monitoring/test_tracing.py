"""The spans of an ended request."""

from __future__ import annotations

import re
from typing import Any

import pytest

from audit.outbox import Ended
from monitoring.tracing import is_wanted, open_spans
from tests.architecture.product import PRODUCT, ROOT
from tests.support.servers.services import need

TRACE, CALLER = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
ACCEPTED_MS = 1_795_402_084_000


def ended(**changes: Any) -> Ended:
    plan = {
        "asked": [0],
        "method": "rrf",
        "branches": [
            {"name": "bm25", "queue": "chorale.bm25"},
            {"name": "vector", "queue": "chorale.vector"},
        ],
    }
    answer = {
        "status": "degraded",
        "degraded": [{"where": "search.vector", "reason": "timeout"}],
        "stages": [
            {"stage": "search.bm25", "ms": 12.5, "start_ms": 4, "status": "ok"},
            {"stage": "fuse", "ms": 1.5, "start_ms": 30, "status": "ok"},
            {"stage": "rerank", "ms": 5, "start_ms": 31.5, "status": "failed", "detail": "budget"},
        ],
        **changes.pop("answer", {}),
    }
    request = {
        "namespace": "docs",
        "top_k": 7,
        "questions": [{"text": "Who is Ada?"}],
        "traceparent": f"00-{TRACE:032x}-{CALLER:016x}-01",
        **changes.pop("request", {}),
    }
    given = {"plan": plan, "envelopes": {"bm25": {"status": "ok", "rankings": []}}, **changes}
    return Ended("r", ACCEPTED_MS, ACCEPTED_MS + 40, "fusion", request, answer=answer, **given)


def spans(one: Ended, *, with_texts: bool = False) -> dict[str, Any]:
    need("opentelemetry.sdk", "`make tracing` installs it")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from monitoring.tracing import RequestSpans

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    RequestSpans(provider, with_texts=with_texts).ended([one])
    found = exporter.get_finished_spans()
    assert len({span.name for span in found}) == len(found)
    return {span.name: span for span in found}


def test_every_span_belongs_to_the_caller_s_trace() -> None:
    found = spans(ended())
    assert {span.context.trace_id for span in found.values()} == {TRACE}
    request = found["retrieval docs"]
    assert request.parent.span_id == CALLER
    for name in ("search chorale.bm25", "search chorale.vector", "fuse"):
        assert found[name].parent.span_id == request.context.span_id


def test_the_fusion_is_linked_to_every_branch() -> None:
    found = spans(ended())
    branches = {span.context.span_id for name, span in found.items() if name.startswith("search ")}
    assert {link.context.span_id for link in found["fuse"].links} == branches
    assert found["fuse.rerank"].parent.span_id == found["fuse"].context.span_id


def test_the_spans_have_the_times_of_the_ledger() -> None:
    found = spans(ended())

    def times_ms(name: str) -> tuple[float, float]:
        begun, done = found[name].start_time, found[name].end_time
        return (begun - ACCEPTED_MS * 10**6) / 1e6, (done - ACCEPTED_MS * 10**6) / 1e6

    assert times_ms("retrieval docs") == (0, 40)
    assert times_ms("search chorale.bm25") == (4, 16.5)
    assert times_ms("search chorale.vector") == (0, 40), "it never reported"
    assert times_ms("fuse") == (30, 40)
    assert times_ms("fuse.rerank") == (31.5, 36.5)
    assert "fuse.fuse" not in found, "it waits for nobody"


def test_the_attributes_are_those_of_the_semantic_conventions() -> None:
    found = spans(ended())
    request = dict(found["retrieval docs"].attributes)
    assert request["gen_ai.operation.name"] == "retrieval"
    assert (request["gen_ai.data_source.id"], request["gen_ai.retrieval.top_k"]) == ("docs", 7)
    assert request["chorale.degraded"] == ("search.vector timeout",)
    branch = dict(found["search chorale.vector"].attributes)
    assert (branch["messaging.operation.type"], branch["messaging.destination.name"]) == (
        "process",
        "chorale.vector",
    )
    assert (branch["messaging.message.id"], branch["error.type"]) == ("r:vector", "timeout")
    assert not found["search chorale.vector"].status.is_ok
    assert found["retrieval docs"].status.is_unset, "a degraded answer is an answer"


def test_a_failed_request_is_an_error() -> None:
    failed = spans(ended(answer={"status": "failed", "stages": []}))
    assert not failed["retrieval docs"].status.is_ok
    assert "fuse" not in failed, "nothing was fused"


def test_the_texts_of_questions_are_shown_only_if_the_installation_wants_it() -> None:
    assert "Ada" not in str([dict(span.attributes) for span in spans(ended()).values()])
    request = spans(ended(), with_texts=True)["retrieval docs"]
    assert request.attributes["gen_ai.retrieval.query.text"] == "Who is Ada?"


def test_a_request_without_a_caller_s_span_begins_a_trace() -> None:
    assert spans(ended(request={"traceparent": None}))["retrieval docs"].parent is None


def test_a_caller_that_does_not_sample_gets_no_spans() -> None:
    assert spans(ended(request={"traceparent": f"00-{TRACE:032x}-{CALLER:016x}-00"})) == {}


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_variables_of_opentelemetry_turn_traces_on_and_off(environ: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environ) is wanted


def test_without_the_packages_there_are_no_traces_and_a_word_about_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    assert open_spans({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, with_texts=False) is None


def test_no_module_imports_opentelemetry_when_it_is_imported() -> None:
    at_import = re.compile(r"^(import|from) +opentelemetry", re.MULTILINE)
    found = [
        str(file.relative_to(ROOT)) for file in PRODUCT if at_import.search(file.read_text(encoding="utf-8"))
    ]
    assert found == []
