"""`chorale.index`: documents that another process hands in, indexed by the one writer."""

from __future__ import annotations

from celery import Celery


def register(app: Celery) -> None:
    """Nothing to register yet."""
