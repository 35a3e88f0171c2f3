"""The four ways to answer a question that `python -m bench latency` compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from chorale_client.request_factory import make_request

from bench import one_process
from bench.chord_path import ChordPath
from bench.latency import Variant
from bench.plain_chord import PlainChord
from bench.redis_cost import wait_for_audit
from tasks.registration import make_app
from wiring.resources import Resources

TIMEOUT_S = 30.0
"""Long, so that no request ends early: what is measured is how long it takes."""
IDLE_BESIDE = {"bm25": "noop_a", "vector": "noop_b", "hyde": "noop_c"}
"""The branches, each with the branch without work that its worker serves as well."""
SWEEPER = "sweeper"
ROLES = (*IDLE_BESIDE, "fusion")
PLAIN_WORKERS = tuple(f"plain-{name}" for name in ROLES)
Layout = Mapping[str, Sequence[str]]
"""Worker processes by name, each with the branches (or `fusion`) whose queues it serves."""


def make_variants(resources: Resources, options: Mapping[str, Any], layout: Layout) -> list[Variant]:
    """`options` go with every request."""
    workers = (*layout, SWEEPER)
    app = make_app(resources)
    # Reranking fills its budget whatever carries the request.
    options = {**options, "timeout_s": TIMEOUT_S, "rerank": "off"}
    cached = ChordPath(app, resources, options)
    options = {**options, "cache": "bypass"}

    settle = partial(wait_for_audit, resources.redis)

    def ask_again(text: str) -> None:
        # The text differs from that of the other variants, so that no worker knows its vector already.
        cached.ask(f"{text}?")

    return [
        Variant("chord", ChordPath(app, resources, options).ask, workers, settle=settle),
        Variant("in_process", lambda text: one_process.answer(resources, make_request(text, **options))),
        Variant("plain_chord", PlainChord(resources, options).ask, PLAIN_WORKERS),
        Variant("cache", ask_again, workers, prepare=ask_again, settle=settle),
    ]
