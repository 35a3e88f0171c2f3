"""What a command that fails prints on stderr, and its exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback

from chorale_client.errors import ChoraleError, InvalidRequest
from redis.exceptions import RedisError

from cli.exit_codes import OTHER, WRONG_USAGE
from config.redis_failures import explained
from config.visible_text import visible
from models.errors import ServiceError, WrongDeclaration

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing the output.  An error of opening a file has the file's name."""


def exit_with(error: Exception) -> None:
    """Print one sentence, or the traceback of an unexpected error, and exit."""
    if isinstance(error, ServiceError | ChoraleError):
        sentence = str(error)
    elif isinstance(error, RedisError):
        sentence = str(explained(error))
    elif isinstance(error, OSError):
        sentence = _of_this_machine(error)
    else:
        # Python would print the message of the error as it is.
        sys.stderr.write(visible("".join(traceback.format_exception(error))))
        sys.exit(OTHER)
    print(f"chorale: {visible(sentence)}", file=sys.stderr)
    sys.exit(WRONG_USAGE if isinstance(error, WrongDeclaration | InvalidRequest) else OTHER)


def _of_this_machine(error: OSError) -> str:
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
