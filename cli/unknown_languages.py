"""Namespaces in a language that the encoder hardly knows, which rank badly by ranks alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.declarations import Pipeline
    from models.documents import NamespaceState

HARDLY_KNOWN = 0.5
"""Below this share of known words, RRF was worse than BM25 alone (docs/evidence/measurements.md)."""
ADVICE = 'ask with the configuration "scores", or declare an encoder that knows the language and build again'


def unknown_languages(pipeline: Pipeline, states: Iterable[NamespaceState]) -> Iterator[str]:
    """A line for each namespace that the default configuration should not rank."""
    default = pipeline.configurations[pipeline.default_configuration]
    if pipeline.kinds.method(default.method).uses_scores or len(pipeline.branches_of(default)) == 1:
        return
    for state in states:
        share = state.manifest.known_words if state.manifest else None
        if share is not None and share < HARDLY_KNOWN:
            yield (
                f"namespace {state.name!r}: the encoder knows {share:.0%} of its words, so vectors mislead the default "
                f"configuration {default.name!r}"
            )
