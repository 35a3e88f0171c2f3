"""`Request.traceparent`: where it comes from, and what it does not change."""

from __future__ import annotations

import sys

import pytest
from chorale_client import InvalidRequest, make_request
from chorale_client.tracing import current_traceparent, valid_traceparent

from tests.support.servers.services import need

SPAN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_client_passes_on_the_span_that_it_is_called_in() -> None:
    need("opentelemetry.sdk", "`make tracing` installs it")
    from opentelemetry.sdk.trace import TracerProvider

    with TracerProvider().get_tracer("tests").start_as_current_span("page") as span:
        context = span.get_span_context()
        said = make_request("bread").traceparent
        assert said == f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        assert make_request("bread", traceparent=SPAN).traceparent == SPAN
    assert make_request("bread").traceparent is None


def test_a_program_without_opentelemetry_asks_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    # redis-py imports it where it is installed.
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    assert make_request("bread").traceparent is None


def test_the_same_request_may_be_sent_again_from_another_span() -> None:
    request = make_request("bread", request_id="r", traceparent=SPAN)
    assert request.written.fingerprint == make_request("bread", request_id="r").written.fingerprint


@pytest.mark.parametrize(
    "wrong", ["", "00-1-2-01", SPAN.upper(), f"01{SPAN[2:]}", f"00-{'0' * 32}-{SPAN[36:]}"]
)
def test_a_wrong_traceparent_is_refused_in_a_request_and_ignored_in_a_header(wrong: str) -> None:
    with pytest.raises(InvalidRequest, match="traceparent"):
        make_request("bread", traceparent=wrong)
    assert valid_traceparent(wrong) is None
    assert valid_traceparent(None) is None
    assert valid_traceparent(SPAN) == SPAN
    assert current_traceparent() is None
