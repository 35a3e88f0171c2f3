"""The thin client of Chorale: send questions, read fused answers."""

from chorale_client.answer import Answer, Hit
from chorale_client.client import Chorale, make_request
from chorale_client.errors import (
    ChoraleError,
    InvalidRequest,
    NoRoom,
    NotEnded,
    RequestIdConflict,
    ServiceUnavailable,
    UnknownRequest,
)
from chorale_client.indexed import Indexed
from chorale_client.request import Question, Request, Variant
from chorale_client.words import Reason, Status

__all__ = [
    # Asking
    "Chorale",
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
    # Errors
    "ChoraleError",
    "InvalidRequest",
    "NoRoom",
    "NotEnded",
    "RequestIdConflict",
    "ServiceUnavailable",
    "UnknownRequest",
]
