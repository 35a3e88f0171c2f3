"""A collector of OpenTelemetry: it keeps the spans that processes export to it over HTTP."""

from __future__ import annotations

import gzip
from typing import Any

from tests.support.servers.local_http import LocalHttp, QuietHandler


class Handler(QuietHandler):
    owner: Collector

    def answer(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        sent = ExportTraceServiceRequest.FromString(body)
        self.owner.spans += [
            span for one in sent.resource_spans for scope in one.scope_spans for span in scope.spans
        ]
        self.send(200, b"")


class Collector(LocalHttp):
    def __init__(self) -> None:
        super().__init__(Handler)
        self.url = self.origin
        self.spans: list[Any] = []
        """Spans of `opentelemetry.proto.trace.v1`."""

    def named(self, name: str) -> list[Any]:
        return [span for span in list(self.spans) if span.name == name]


collector = Collector
