"""The thin client of Chorale: send questions, read fused answers."""

from chorale_client.answer import Answer, Hit
from chorale_client.asynchronous.client import AsyncChorale, AsyncHandle
from chorale_client.client import Chorale, Handle
from chorale_client.errors import (
    ChoraleError,
    InvalidJob,
    InvalidRequest,
    NoRoom,
    NoSuchJob,
    NotEnded,
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
    "AsyncChorale",
    "AsyncHandle",
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
    "NoRoom",
    "NoSuchJob",
    "NotEnded",
    "RequestIdConflict",
    "ServiceUnavailable",
    "UnknownRequest",
    "WrongJobState",
]
