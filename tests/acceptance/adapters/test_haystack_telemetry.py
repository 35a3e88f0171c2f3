"""Haystack's telemetry is off in tests.

Like the tests of the adapter, this file imports Haystack when pytest collects it, which is when Haystack reads its switch.
"""

from __future__ import annotations

import threading

from chorale_client.adapters.haystack import ChoraleRetriever
from haystack import Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.telemetry import _telemetry


def test_no_thread_of_telemetry_starts_with_the_adapter_or_with_a_pipeline() -> None:
    assert ChoraleRetriever.__module__ == "chorale_client.adapters.haystack"
    pipeline = Pipeline()
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.run({"joiner": {"documents": []}})
    assert _telemetry.telemetry is None
    assert [thread for thread in threading.enumerate() if "posthog" in type(thread).__module__] == []
