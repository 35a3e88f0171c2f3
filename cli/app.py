"""The `chorale` command; each of its commands is a file of this folder, listed in `__main__.py`."""

from __future__ import annotations

import sys

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


@app.callback()
def chorale() -> None:
    # With a callback Typer keeps a lone command's name: `chorale up`, never `chorale` alone.
    pass


def run() -> None:
    """Run the command line: what the service or the client says is wrong is a sentence, never a traceback."""
    try:
        app(prog_name="chorale")
    except (ServiceError, ChoraleError) as error:
        print(f"chorale: {error}", file=sys.stderr)
        sys.exit(WRONG_USAGE if isinstance(error, WrongDeclaration | InvalidRequest) else OTHER)
    except RedisError as error:
        print(f"chorale: Redis does not answer: {error}", file=sys.stderr)
        sys.exit(OTHER)
