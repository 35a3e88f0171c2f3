"""The driver's errors as StageFailure."""

from __future__ import annotations

import re

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
    ("Neo.ClientError.Database.", BadIndex),
    ("Neo.ClientError.Statement.", NotConfigured),
    ("Neo.ClientError.Procedure.", NotConfigured),
    ("Neo.TransientError.", StoreUnavailable),
    ("Neo.DatabaseError.", StoreUnavailable),
)
"""The failure for the beginning of each code."""
_PLACE = re.compile(r" \((line \d+, column \d+) \(offset: \d+\)\).*", re.DOTALL)


def failure_of(error: Exception, url: str) -> StageFailure:
    """A wrong statement has its line and column first, because the server's message may be long."""
    if isinstance(error, Neo4jError):
        code, message = error.code or "", error.message or ""
        kind = next((kind for begin, kind in _MEANINGS if code.startswith(begin)), InvalidAnswer)
        place = _PLACE.search(message)
        where = f"{place[1]} of the statement: " if place else ""
        return kind(f"{url}: {where}{code.rpartition('.')[2]}: {_PLACE.sub('', message)}"[:500])
    if isinstance(error, DriverError | OSError):
        return StoreUnavailable(f"{url} cannot be reached, or closed the connection ({type(error).__name__})")
    return InvalidAnswer(f"{url}: {type(error).__name__}: {error}"[:300])
