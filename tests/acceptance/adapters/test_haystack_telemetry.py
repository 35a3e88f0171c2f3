"""Haystack's telemetry is off in tests."""

from __future__ import annotations

import threading


def test_no_thread_of_telemetry_starts_with_the_adapter_or_with_a_pipeline() -> None:
    # Importing them takes seconds, in each process that collects the tests.
    from chorale_client.adapters.haystack import ChoraleRetriever
    from haystack import Pipeline
    from haystack.components.joiners import DocumentJoiner
    from haystack.telemetry import _telemetry

    assert ChoraleRetriever.__module__ == "chorale_client.adapters.haystack"
    pipeline = Pipeline()
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.run({"joiner": {"documents": []}})
    assert _telemetry.telemetry is None
    assert [thread for thread in threading.enumerate() if "posthog" in type(thread).__module__] == []
