"""What gets the requests that have ended: the log, the metrics and the collector of traces."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from structlog import get_logger

from ledger.breaker_outcomes import encoder_name, store_name
from monitoring.counting import RequestFigures
from monitoring.ended_requests import log_ended
from monitoring.tracing import open_spans
from records.audit.outbox import Ended
from tasks.request.planning.live_pairs import is_shadow
from tasks.wiring.resources import Resources

log = get_logger("chorale.events")


Listener = Callable[[Sequence[Ended]], None]


def listeners(resources: Resources) -> list[Listener]:
    branches = [branch.name for branch in resources.pipeline.branches]
    # A language model has one name for its breaker and its fingerprint.
    models = [*resources.generators.fingerprints, *map(encoder_name, resources.encoders.endpoints)]
    breakers = [*branches, *map(store_name, resources.pipeline.stores), *models]
    spans = open_spans(os.environ, with_texts=resources.settings.log_texts)
    figures = RequestFigures(resources.redis, branches=branches, breakers=breakers)

    def count_callers(ended: Sequence[Ended]) -> None:
        """Nobody waits for a shadow."""
        shadow = resources.pipeline.shadow
        configured = (((request.plan or {}).get("configuration"), request) for request in ended)
        figures.ended(
            [request for name, request in configured if not is_shadow(request.request_id, name, shadow)]
        )

    return [log_ended, count_callers, *([spans.ended] if spans else [])]


def notify(listeners: Sequence[Listener], ended: Sequence[Ended]) -> None:
    """A listener that fails keeps nothing from the others, nor from the audit trail."""
    for listener in listeners:
        try:
            listener(ended)
        except Exception as error:
            log.warning("ended requests not told", error=f"{type(error).__name__}: {error}"[:200])
