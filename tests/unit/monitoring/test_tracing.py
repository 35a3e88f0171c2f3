"""The spans of an ended request."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from monitoring.tracing import is_wanted, open_spans
from records.audit.outbox import Ended
from tests.architecture.product import PRODUCT
from tests.support.servers.services import need

TRACE, CALLER = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
ACCEPTED_MS = 1_795_402_084_000


PLAN = {
    "searched": [0],
    "method": "rrf",
    "branches": [{"name": name, "queue": f"chorale.{name}"} for name in ("bm25", "vector")],
}
STAGES = [
    {"stage": "search.bm25", "ms": 12.5, "start_ms": 4, "status": "ok"},
    {"stage": "fuse", "ms": 1.5, "start_ms": 30, "status": "ok"},
    {"stage": "rerank", "ms": 5, "start_ms": 31.5, "status": "failed", "detail": "budget"},
]
TRACEPARENT = f"00-{TRACE:032x}-{CALLER:016x}-01"


def ended(*, traceparent: str | None = TRACEPARENT, **changes: Any) -> Ended:
    lacks = [{"where": "search.vector", "reason": "timeout"}]
    answer = {"status": "degraded", "degraded": lacks, "stages": STAGES, **changes}
    questions = [{"text": "Who is Ada?"}]
    request = {"namespace": "docs", "top_k": 7, "questions": questions, "traceparent": traceparent}
    branch_results = {"bm25": {"status": "ok", "rankings": []}}
    times = (ACCEPTED_MS, ACCEPTED_MS + 40)
    return Ended("r", *times, "fusion", request, plan=PLAN, answer=answer, branch_results=branch_results)


def spans(one: Ended, *, with_texts: bool = False) -> dict[str, Any]:
    need("opentelemetry.sdk", "`make tracing` installs it")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from monitoring.tracing import RequestSpans

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    RequestSpans(provider, with_texts=with_texts).ended([one])
    finished = exporter.get_finished_spans()
    assert len({span.name for span in finished}) == len(finished)
    return {span.name: span for span in finished}


def test_every_span_belongs_to_the_caller_s_trace_and_the_fusion_is_linked_to_every_branch() -> None:
    by_name = spans(ended())
    assert {span.context.trace_id for span in by_name.values()} == {TRACE}
    request, fusion = by_name["retrieval docs"], by_name["fuse"]
    branches = [by_name["search chorale.bm25"], by_name["search chorale.vector"]]
    assert request.parent.span_id == CALLER
    assert {span.parent.span_id for span in (fusion, *branches)} == {request.context.span_id}
    assert [link.context.span_id for link in fusion.links] == [span.context.span_id for span in branches]
    assert by_name["fuse.rerank"].parent.span_id == fusion.context.span_id
    assert spans(ended(traceparent=None))["retrieval docs"].parent is None, "it begins a trace"
    assert spans(ended(traceparent=f"{TRACEPARENT[:-1]}0")) == {}, "the caller does not sample"


def test_the_spans_have_the_times_of_the_ledger() -> None:
    times_ms = {
        name: tuple((at_ns - ACCEPTED_MS * 10**6) / 1e6 for at_ns in (span.start_time, span.end_time))
        for name, span in spans(ended()).items()
    }
    assert times_ms == {
        "retrieval docs": (0, 40),
        "search chorale.bm25": (4, 16.5),
        "search chorale.vector": (0, 40),  # it never reported
        "fuse": (30, 40),
        "fuse.rerank": (31.5, 36.5),
    }


def test_the_attributes_are_those_of_the_semantic_conventions() -> None:
    by_name = spans(ended())
    assert by_name["retrieval docs"].status.is_unset, "a degraded answer is an answer"
    assert not by_name["search chorale.vector"].status.is_ok
    request, branch = (by_name[name].attributes for name in ("retrieval docs", "search chorale.vector"))
    expected = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "docs",
        "gen_ai.retrieval.top_k": 7,
    }
    assert expected.items() <= dict(request).items()
    assert request["chorale.degraded"] == ("search.vector timeout",)
    assert branch["messaging.operation.type"] == "process"
    assert branch["messaging.destination.name"] == "chorale.vector"
    assert (branch["messaging.message.id"], branch["error.type"]) == ("r:vector", "timeout")
    failed = spans(ended(status="failed", stages=[]))
    assert not failed["retrieval docs"].status.is_ok
    assert "fuse" not in failed, "nothing was fused"


def test_spans_have_the_texts_of_questions_only_if_the_installation_wants_it() -> None:
    assert "Ada" not in str([dict(span.attributes) for span in spans(ended()).values()])
    request = spans(ended(), with_texts=True)["retrieval docs"]
    assert request.attributes["gen_ai.retrieval.query.text"] == "Who is Ada?"


def test_the_variables_of_opentelemetry_turn_traces_on_and_off() -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    assert is_wanted(endpoint)
    assert is_wanted({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"})
    assert not is_wanted({})
    assert not is_wanted({**endpoint, "OTEL_SDK_DISABLED": "true"})


def test_without_the_packages_there_are_no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert open_spans({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, with_texts=False) is None


def test_no_module_imports_opentelemetry_when_it_is_imported() -> None:
    at_import = re.compile(r"^(import|from) +opentelemetry", re.MULTILINE)
    assert [file for file in PRODUCT if at_import.search(file.read_text(encoding="utf-8"))] == []
