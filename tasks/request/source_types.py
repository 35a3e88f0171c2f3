"""Source types without a factor: a misspelt one would lose its authority silently."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from structlog import get_logger

from fusion.fused_hits import FusedQuestion
from models.plan import BoostPlan

log = get_logger("chorale.end")


def warn_of_unknown(boosts: BoostPlan | None, pages: Iterable[FusedQuestion]) -> None:
    """Log the source types of these hits that the table of authorities lacks, each once in a process."""
    known = tuple(boosts.authority) if boosts else ()
    types = {hit.source_type.casefold() for page in pages for hit in page.hits if known and hit.source_type}
    for source_type in sorted(types.difference(known)):
        _warn(source_type, known)


@lru_cache(256)
def _warn(source_type: str, known: tuple[str, ...]) -> None:
    log.warning("source type without authority", source_type=source_type, known=list(known))
