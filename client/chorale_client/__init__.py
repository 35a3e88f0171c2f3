"""The thin client of Chorale: send questions, read fused answers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chorale_client.answer import Answer, Hit
    from chorale_client.asynchronous.cells import AsyncCells
    from chorale_client.asynchronous.client import AsyncChorale, AsyncHandle
    from chorale_client.cells import Cells
    from chorale_client.client import Chorale, Handle
    from chorale_client.errors import (
        ChoraleError,
        InvalidJob,
        InvalidRequest,
        NoSuchJob,
        NotEnded,
        QueueFull,
        RequestIdConflict,
        ServiceUnavailable,
        UnknownRequest,
        WrongJobState,
    )
    from chorale_client.events import Event
    from chorale_client.index_tickets import Indexed
    from chorale_client.jobs.handles import JobHandle, Jobs
    from chorale_client.jobs.job import Job
    from chorale_client.request import Question, Request, Variant
    from chorale_client.request_factory import make_request
    from chorale_client.wire_names import Reason, Status

__all__ = [
    # Asking
    "AsyncCells",
    "AsyncChorale",
    "AsyncHandle",
    "Cells",
    "Chorale",
    "Event",
    "Handle",
    "Question",
    "Request",
    "Variant",
    "make_request",
    # Answers
    "Answer",
    "Hit",
    "Reason",
    "Status",
    # Documents
    "Indexed",
    # Bulk jobs
    "Job",
    "JobHandle",
    "Jobs",
    # Errors
    "ChoraleError",
    "InvalidJob",
    "InvalidRequest",
    "NoSuchJob",
    "NotEnded",
    "QueueFull",
    "RequestIdConflict",
    "ServiceUnavailable",
    "UnknownRequest",
    "WrongJobState",
]

_MODULES = {
    "answer": ("Answer", "Hit"),
    "asynchronous.cells": ("AsyncCells",),
    "asynchronous.client": ("AsyncChorale", "AsyncHandle"),
    "cells": ("Cells",),
    "client": ("Chorale", "Handle"),
    "events": ("Event",),
    "index_tickets": ("Indexed",),
    "jobs.handles": ("JobHandle", "Jobs"),
    "jobs.job": ("Job",),
    "request": ("Question", "Request", "Variant"),
    "request_factory": ("make_request",),
    "wire_names": ("Reason", "Status"),
}
"""The module of each name.  The names of errors are in `errors`."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    # A module is imported when one of its names is first used, so that a program that needs one word does not import Celery.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
