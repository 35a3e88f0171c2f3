"""The driver's errors as StageFailure.  A message of the server may contain values of the request only where it names them."""

from __future__ import annotations

from neo4j.exceptions import DriverError, Neo4jError

from models.errors import (
    BadIndex,
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)

_MEANINGS: tuple[tuple[str, type[StageFailure]], ...] = (
    ("Neo.ClientError.Security.", Unauthorised),
    ("Neo.ClientError.Transaction.TransactionTimedOut", StoreTimeout),
    ("Neo.ClientError.Transaction.LockClientStopped", StoreTimeout),
    ("Neo.ClientError.Database.", BadIndex),
    ("Neo.ClientError.Statement.", NotConfigured),
    ("Neo.ClientError.Procedure.", NotConfigured),
    ("Neo.TransientError.", StoreUnavailable),
    ("Neo.DatabaseError.", StoreUnavailable),
)
"""The failure for the beginning of each code."""


def failure_of(error: Exception, url: str) -> StageFailure:
    """A statement that is wrong gets the server's message, which has line and column."""
    if isinstance(error, Neo4jError):
        code = error.code or ""
        kind = next((kind for begin, kind in _MEANINGS if code.startswith(begin)), InvalidAnswer)
        message = " ".join((error.message or "").split('"\n')[0].split())
        return kind(f"{url}: {code.removeprefix('Neo.')}: {message}"[:500])
    if isinstance(error, DriverError | OSError):
        return StoreUnavailable(f"{url} cannot be reached, or closed the connection ({type(error).__name__})")
    return InvalidAnswer(f"{url}: {type(error).__name__}: {error}"[:300])
