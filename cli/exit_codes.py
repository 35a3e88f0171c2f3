"""How a command ends: its exit code, and what a command that fails prints on stderr."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Mapping
from tempfile import mkstemp
from typing import Final

from chorale_client.wire_names import Status

from config.visible_text import visible

OTHER: Final = 1
"""Anything that is not listed here."""
WRONG_USAGE: Final = 2
PART_DONE: Final = 8
"""Part of the work was done, such as some of the documents to index."""
GOLDEN_FAILED: Final = 9
"""More golden questions failed than may fail."""

UNSUPPORTED: Final = 78
"""Chorale does not support this kind of Redis, so a restart would fail too.  EX_CONFIG of BSD's sysexits.h."""

BY_STATUS: Mapping[str, int] = {
    Status.COMPLETE: 0,
    Status.DEGRADED: 3,
    Status.FAILED: 4,
    Status.SKIPPED: 5,
    Status.CANCELLED: 6,
    Status.REFUSED: 7,
}
"""Exit code of a command that searches, by the status of the answer; read it with `.get(status, OTHER)`."""

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing the output.  An error of opening a file has the file's name."""


def job_exit_code(outcome: str | None, counts: Mapping[str, int]) -> int:
    """Exit code of a command that waited for a job."""
    if outcome == "cancelled":
        return BY_STATUS[Status.CANCELLED]
    if outcome == "failed":
        return BY_STATUS[Status.FAILED]
    if outcome == "expired" or any(counts[name] for name in ("failed", "refused", "expired", "cancelled")):
        return PART_DONE
    return BY_STATUS[Status.DEGRADED] if counts["degraded"] else 0


def exit_with(error: Exception, *, is_process: bool = False) -> None:
    """Print one sentence, and exit.

    The traceback of an unexpected error goes into a file, which the sentence names.  A command that `is_process` writes the
    traceback to stderr, which is its log.
    """
    from chorale_client.errors import ChoraleError, InvalidRequest
    from redis.exceptions import RedisError

    from config.redis_client import explained
    from models.errors import ServiceError, UnsupportedRedis, WrongDeclaration

    if isinstance(error, ServiceError | ChoraleError):
        sentence = str(error)
    elif isinstance(error, RedisError):
        sentence = str(explained(error))
    elif isinstance(error, OSError):
        sentence = _sentence_of(error)
    else:
        # Python would print the message of the error as it is.
        details = visible("".join(traceback.format_exception(error)))
        file = None if is_process else _error_file(details)
        if file is None:
            sys.stderr.write(details)
            sys.exit(OTHER)
        sentence = f"an unexpected error; its details are in {file}"
    print(f"chorale: {visible(sentence)}", file=sys.stderr)
    if isinstance(error, UnsupportedRedis):
        sys.exit(UNSUPPORTED)
    sys.exit(WRONG_USAGE if isinstance(error, WrongDeclaration | InvalidRequest) else OTHER)


def _error_file(details: str) -> str | None:
    """The name of a new file with these details, which only this user may read; None if it cannot be written."""
    try:
        descriptor, name = mkstemp(prefix="chorale-error-", suffix=".log")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(details)
    except OSError:
        return None
    return name


def _sentence_of(error: OSError) -> str:
    try:
        sys.stdout.flush()
    except OSError:
        # Python flushes stdout once more when it exits, and would print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        sys.exit(OTHER)
    if error.errno in _CANNOT_WRITE and error.filename is None:
        return f"the output cannot be written: {error.strerror}"
    return f"{error.filename}: {error.strerror}" if error.filename else f"{type(error).__name__}: {error}"
