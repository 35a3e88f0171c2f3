"""Who learns of ended requests, once the drainer has written them to the audit tables: log, metrics and traces.

No worker does anything for these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from structlog import get_logger

from audit.outbox import Ended
from ledger.outcomes import store_name
from monitoring.counting import RequestFigures
from monitoring.ended_requests import log_ended
from monitoring.tracing import open_spans
from wiring.resources import Resources

log = get_logger("chorale.sweeper")

Listener = Callable[[Sequence[Ended]], None]


def listeners(resources: Resources) -> list[Listener]:
    branches = [branch.name for branch in resources.pipeline.branches]
    # A language model has one name for its breaker and its fingerprint.
    models = resources.generators.fingerprints
    breakers = [*branches, *map(store_name, resources.pipeline.stores), *models]
    spans = open_spans(os.environ, with_texts=resources.settings.log_texts)
    return [
        log_ended,
        RequestFigures(resources.redis, branches=branches, breakers=breakers).ended,
        *([spans.ended] if spans else []),
    ]


def tell(listeners: Sequence[Listener], ended: Sequence[Ended]) -> None:
    """A listener that fails keeps nothing from the others, nor from the audit trail."""
    for listener in listeners:
        try:
            listener(ended)
        except Exception as error:
            log.warning("ended requests not told", error=f"{type(error).__name__}: {error}"[:200])
