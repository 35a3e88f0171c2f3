"""The `chorale` command; each of its commands is a file of this folder, listed in `__main__.py`."""

from __future__ import annotations

import errno
import os
import sys
from io import TextIOWrapper
from typing import NoReturn

import typer
from chorale_client.errors import ChoraleError, InvalidRequest
from redis.exceptions import RedisError

from cli.exit_codes import OTHER, WRONG_USAGE
from models.errors import ServiceError, WrongDeclaration

app = typer.Typer(
    name="chorale",
    help="Hybrid retrieval in which every request ends on time with the best answer there is.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing runs into; of a file that is opened the error has the name."""


@app.callback()
def chorale() -> None:
    # With a callback Typer keeps a lone command's name: `chorale up`, never `chorale` alone.
    pass


def run() -> None:
    """Run the command line: what is wrong with the service, the request or this machine is a sentence, never a
    traceback."""
    # What the encoding lacks is printed as a question mark.
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            app(prog_name="chorale")
        finally:
            sys.stdout.flush()
    except (ServiceError, ChoraleError) as error:
        _end(str(error), WRONG_USAGE if isinstance(error, WrongDeclaration | InvalidRequest) else OTHER)
    except RedisError as error:
        from config.redis_trouble import trouble

        _end(str(trouble(error)))
    except OSError as error:
        _end(_of_this_machine(error))


def _of_this_machine(error: OSError) -> str:
    try:
        sys.stdout.flush()
    except OSError:
        # Python would try again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        sys.exit(OTHER)
    if error.errno in _OUTPUT and error.filename is None:
        return f"the output cannot be written: {error.strerror}"
    return f"{error.filename}: {error.strerror}" if error.filename else f"{type(error).__name__}: {error}"


def _end(said: str, code: int = OTHER) -> NoReturn:
    print(f"chorale: {said}", file=sys.stderr)
    sys.exit(code)
