"""The `chorale` command: what its commands have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper

import typer

from cli.command_list import CommandList

app = typer.Typer(
    name="chorale",
    cls=CommandList,
    help="Hybrid retrieval in which every request ends on time with the best answer there is.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def chorale() -> None:
    # Typer makes a group of an app only where it has a callback.
    pass


def run(command: Callable[..., object] = app, name: str = "chorale") -> None:
    """Run a command line.

    An error of the service, the request or this machine is printed as a sentence, never as a traceback.
    """
    # What is made here is this user's alone: documents, questions, keys, logs.  The processes that it starts inherit this.
    os.umask(0o077)
    # A character that the terminal's encoding lacks is printed as a question mark.
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            command(prog_name=name)
        finally:
            sys.stdout.flush()
    except Exception as error:
        # Imported here: this module imports Redis and the client, which a command's help does not need.
        from cli.exit_codes import exit_with

        exit_with(error)
