"""Queue names: short as an operator types them, `bm25`, and full as Celery has them, `chorale.bm25`."""

from __future__ import annotations


def full_name(queue: str) -> str:
    return queue if queue.startswith("chorale.") else f"chorale.{queue}"


def short_name(queue: str) -> str:
    return queue.removeprefix("chorale.")
