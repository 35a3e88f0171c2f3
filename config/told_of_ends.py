"""Whom this installation tells of an end (`on_end`)."""

from __future__ import annotations

from collections.abc import Mapping

from config.settings import Settings
from models.errors import WrongDeclaration


def check_on_end(on_end: Mapping[str, str] | None, settings: Settings) -> None:
    """Raises WrongDeclaration if this installation does not tell whom `on_end` names."""
    if on_end is None:
        return
    if "url" in on_end and not settings.webhook_secret:
        raise WrongDeclaration("on_end: no webhook is sent without a secret; set CHORALE_WEBHOOK_SECRET")
    if "queue" in on_end:
        check_queue(on_end["queue"], settings)


def check_queue(queue: str, settings: Settings, *, named_by: str = "on_end") -> None:
    """Raises WrongDeclaration if this installation sends no tasks to the queue."""
    if queue not in settings.on_end_queues:
        allowed = ", ".join(settings.on_end_queues) or "none"
        raise WrongDeclaration(
            f"{named_by}: the queue {queue!r} is not in CHORALE_ON_END_QUEUES; there are: {allowed}"
        )
