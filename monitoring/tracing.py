"""Spans of ended requests for OpenTelemetry, made where the audit trail is written.

    the caller's span                     Request.traceparent
    └─ retrieval <namespace>              the request
       ├─ search <queue>                  one for each branch
       └─ fuse, linked to each branch     with a span for each stage that waits: fetch, rerank

The drainer knows the times of every ended request by the Redis server's clock.  Workers and callers therefore make no
span and export nothing, and a branch whose worker was killed does not take the trace with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chorale_client.wire_names import Stage, StageStatus, Status
from structlog import get_logger

from monitoring.ended_requests import EndedBranch, ended_branches
from records.audit.outbox import Ended

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

log = get_logger("chorale.tracing")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""One of these variables of OpenTelemetry turns traces on."""

WAITING = (Stage.FETCH, Stage.RERANK)
"""Stages of the fusion that wait for a store or a model.  The others take a fraction of a millisecond."""

TIMEOUTS = ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
EXPORT_LIMIT_S = 3.0
"""OpenTelemetry's own default of 10 s is as long as `chorale up` and Docker wait for a process that stops."""


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether a collector is named, and OpenTelemetry not disabled."""
    is_disabled = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not is_disabled and any(environ.get(name) for name in ENDPOINTS)


def open_spans(environ: Mapping[str, str], *, with_texts: bool) -> RequestSpans | None:
    """Exports over OTLP, from a thread of its own; None if traces are off or the packages are missing.

    If this process has a provider already (`opentelemetry-instrument`), its exporters get the spans.
    """
    if not is_wanted(environ):
        return None
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        log.warning("no traces: `make tracing` installs the packages", error=str(error))
        return None
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        name = environ.get("OTEL_SERVICE_NAME") or "chorale"
        limit_s = None if any(environ.get(variable) for variable in TIMEOUTS) else EXPORT_LIMIT_S
        provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=limit_s)))
    return RequestSpans(provider, with_texts=with_texts)


class RequestSpans:
    """`with_texts`: the texts of questions become an attribute."""

    def __init__(self, provider: TracerProvider, *, with_texts: bool) -> None:
        self._tracer = provider.get_tracer("chorale")
        self._with_texts = with_texts

    def ended(self, requests: Sequence[Ended]) -> None:
        for request in requests:
            self._export(request)

    def _export(self, ended: Ended) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {"traceparent": ended.request.get("traceparent") or ""}
        caller = TraceContextTextMapPropagator().extract(carrier, context=Context())
        request = self._tracer.start_span(
            f"retrieval {ended.request.get('namespace')}",
            context=caller,
            kind=SpanKind.CLIENT,
            start_time=_ns(ended.accepted_at_ms),
            attributes=_request_attributes(ended, with_texts=self._with_texts),
        )
        if not request.is_recording():  # the caller's sampling, or OTEL_TRACES_SAMPLER
            return
        branches = [self._branch(ended, branch, request) for branch in ended_branches(ended)]
        if stages := list(_fusion_stages(ended)):
            self._fusion(ended, stages, request, branches)
        if ended.answer.get("status") == Status.FAILED:
            _fail(request, next(iter(_missing(ended)), "failed"))
        request.end(_ns(ended.ended_at_ms))

    def _branch(self, ended: Ended, branch: EndedBranch, request: Span) -> Span:
        """A branch that did not answer lasts until the end of the request."""
        from opentelemetry.trace import SpanKind

        begun_ms = branch.start_ms or 0.0
        span = self._tracer.start_span(
            f"search {branch.queue}",
            context=_within(request),
            kind=SpanKind.CONSUMER,
            start_time=_ns(ended.accepted_at_ms, begun_ms),
            attributes=_branch_attributes(ended, branch),
        )
        if not branch.has_answered:
            _fail(span, branch.outcome)
        lasts_ms = ended.ended_at_ms - ended.accepted_at_ms - begun_ms if branch.ms is None else branch.ms
        span.end(_ns(ended.accepted_at_ms, begun_ms + lasts_ms))
        return span

    def _fusion(
        self, ended: Ended, stages: Sequence[dict[str, Any]], request: Span, branches: Sequence[Span]
    ) -> None:
        from opentelemetry.trace import Link

        fusion = self._tracer.start_span(
            "fuse",
            context=_within(request),
            start_time=_ns(ended.accepted_at_ms, stages[0]["start_ms"]),
            links=[Link(span.get_span_context()) for span in branches],
            attributes={"chorale.method": str((ended.plan or {}).get("method")), "chorale.by": ended.by},
        )
        for stage in stages:
            if stage["stage"] not in WAITING:
                continue
            begun_ms = stage["start_ms"]
            span = self._tracer.start_span(
                f"fuse.{stage['stage']}",
                context=_within(fusion),
                start_time=_ns(ended.accepted_at_ms, begun_ms),
            )
            if stage.get("status") == StageStatus.FAILED:
                _fail(span, str(stage.get("detail")))
            span.end(_ns(ended.accepted_at_ms, begun_ms + stage["ms"]))
        fusion.end(_ns(ended.ended_at_ms))


def _request_attributes(ended: Ended, *, with_texts: bool) -> dict[str, Any]:
    request, questions = ended.request, ended.request.get("questions") or ()
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.provider.name": "chorale",
        "gen_ai.data_source.id": str(request.get("namespace")),
        "gen_ai.retrieval.top_k": request.get("top_k") or 0,
        "chorale.request_id": ended.request_id,
        "chorale.status": str(ended.answer.get("status")),
        "chorale.by": ended.by,
        "chorale.cached": bool(ended.answer.get("cached")),
        "chorale.questions": len(questions),
        "chorale.degraded": _missing(ended),
    }
    if request.get("correlation_id"):
        attributes["chorale.correlation_id"] = request["correlation_id"]
    if with_texts:
        attributes["gen_ai.retrieval.query.text"] = "\n".join(str(each.get("text")) for each in questions)
    return attributes


def _branch_attributes(ended: Ended, branch: EndedBranch) -> dict[str, Any]:
    hedge = f":{branch.attempt}" if branch.attempt > 1 else ""
    return {
        "messaging.system": "celery",
        "messaging.operation.name": "search",
        "messaging.operation.type": "process",
        "messaging.destination.name": branch.queue,
        "messaging.message.id": f"{ended.request_id}:{branch.name}{hedge}",
        "chorale.branch": branch.name,
        "chorale.outcome": branch.outcome,
        "chorale.hits": branch.hits,
    }


def _fusion_stages(ended: Ended) -> Iterator[dict[str, Any]]:
    for stage in ended.answer.get("stages") or ():
        if "start_ms" in stage and not stage["stage"].startswith(f"{Stage.SEARCH}."):
            yield stage


def _missing(ended: Ended) -> list[str]:
    return [f"{missing['where']} {missing['reason']}" for missing in ended.answer.get("degraded") or ()]


def _within(parent: Span) -> Context:
    from opentelemetry.context import Context
    from opentelemetry.trace import set_span_in_context

    return set_span_in_context(parent, Context())


def _fail(span: Span, reason: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", reason)
    span.set_status(StatusCode.ERROR, reason)


def _ns(at_ms: int, later_ms: float = 0.0) -> int:
    return at_ms * 1_000_000 + round(later_ms * 1_000_000)
