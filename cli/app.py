"""The `chorale` command: what its commands have in common, and their list; a command's own file is imported when the command is called."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from cli.options import PLAIN_HELP
from config.visible_text import visible

PANELS: Mapping[str, Mapping[str, str]] = {
    "Run": {
        "demo": "Take a tour of the whole pipeline, in half a minute.",
        "up": "Start the server and the workers, and look after them until Ctrl-C.",
        "worker": "Work on one or more queues until stopped; `chorale up` starts workers by itself.",
        "serve": "Serve the HTTP API and the console until stopped; `chorale up --http` starts both by itself.",
        "sweeper": "Join and end requests from the ledger, and drain the outbox; `chorale up` starts one by itself.",
    },
    "Ask": {
        "search": "Ask a running installation and show the fused answer.",
        "jobs": "Submit files of questions, watch and steer the jobs, and read their results.",
        "mcp": "Offer the tools `search`, `fetch` and `chorale_search` to an MCP client.",
        "cancel": "End a request: everybody who waits for it gets an answer with the status `cancelled` and no hits.",
    },
    "Documents": {
        "index": "Index text, Markdown, reStructuredText, HTML, CSV, JSON, JSON lines (PDF after `make pdf`, Office after `make office`).",
        "delete": "Delete documents from a namespace; unknown ids are only counted.",
        "verify": "Compare what every store shows with the documents' database, and mend what differs.",
        "namespaces": "List, show, create, rebuild, deactivate and delete namespaces.",
        "rules": "Pin and block documents, name synonyms, set weights, and show every change.",
    },
    "Look after": {
        "status": "Show workers, queues, namespaces and what is on its way to the audit tables, of each cell.",
        "env": "Print the variables with which applications, examples and Celery find the running Chorale, with passwords.",
        "doctor": "Look for what is wrong, and say how to mend it; nothing is changed.",
        "backup": "Copy documents, vectors and audit trail into a folder; searches and indexing go on meanwhile.",
        "restore": "Put a backup into CHORALE_HOME, where nothing may run meanwhile.",
        "audit": "Show and delete past requests and answers: the audit trail.",
        "replay": "Fuse a past request again from its audit rows: as it was, or under another configuration.",
        "keys": "Create, list and revoke the keys of callers of the HTTP API.",
    },
    "Measure": {
        "models": "List encoders and rerankers with their size, languages, licence, prompts and published quality.",
        "eval": "Index a judged collection and measure every branch and configuration on its questions.",
        "golden": "Ask questions whose answers are known, and show where an expected document is missing.",
        "judgements": "Export, import, count and generate judgements: grades, thumbs and clicks on hits.",
        "compare": "Compare two configurations, or recorded answers, on the judged questions of a collection.",
        "tune": "Choose method, weights, k, depth and boosts by judged questions, and say whether that is better.",
    },
}
"""Panels of the help, each with its commands and the first paragraph of their own help."""

_PROCESSES = ("worker", "serve", "sweeper")
_ELSEWHERE = {
    "eval": ("evaluate", "evaluate"),
    "restore": ("backup", "restore"),
    "replay": ("audit", "replay"),
    "verify": ("delete", "verify"),
    "cancel": ("search", "cancel"),
    **{name: ("processes", name) for name in _PROCESSES},
}
"""File and function of the commands whose file or function has another name than the command."""


def load_command(name: str) -> Any:
    """Import the command `name` and return it as Click's object."""
    file, attribute = _ELSEWHERE.get(name, (name, name))
    command = getattr(import_module(f"cli.commands.{file}"), attribute)
    if isinstance(command, typer.Typer):
        return _with_whole_lines(typer.main.get_group(command))
    alone = typer.Typer(add_completion=False, **PLAIN_HELP)
    alone.command(name)(command)
    return _with_whole_lines(typer.main.get_command(alone))


def _with_whole_lines(command: Any) -> Any:
    """The command, whose help keeps each indented example on one line, since an example that is cut inside of quotes cannot be copied.
    In a list of commands it keeps the whole first sentence of each."""
    command.help = command.help and re.sub(r"\n\n(?= {4})", "\n\n\b\n", command.help)
    for inner in getattr(command, "commands", {}).values():
        inner.short_help = re.split(r"(?<=\.)\s", inner.help or "", maxsplit=1)[0]
        _with_whole_lines(inner)
    return command


@contextmanager
def _visible_complaints() -> Iterator[None]:
    """An error of Typer quotes the argument, which may be a file's name that the shell has put there."""
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = visible(message)  # type: ignore[attr-defined]
        raise


class CommandList(TyperGroup):
    """Lists every command of PANELS, and imports only the called command."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for commands in PANELS.values():
            for name, summary in commands.items():
                self.add_command(TyperCommand(name, help=summary))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel, commands in PANELS.items():
            with formatter.section(panel):
                formatter.write_dl(list(commands.items()))

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _visible_complaints():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _visible_complaints():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load_command(name), rest


app = typer.Typer(
    name="chorale",
    cls=CommandList,
    help="Hybrid retrieval in which every request ends on time with the best answer there is.",
    no_args_is_help=True,
    **PLAIN_HELP,
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
    called = " ".join(sys.argv[1:2])
    # Workers run code of others, which may use plugins of Pydantic, and may write a file that is only closed as garbage.
    if is_short := called not in (*_PROCESSES, "up"):
        # Pydantic would read the metadata of every installed package in search of plugins.  A user of plugins sets the variable to "".
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        # Nearly all objects of a short command are parts of modules, which are never garbage.
        gc.set_threshold(20_000)
    # A character that the terminal's encoding lacks is printed as a question mark.
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            command(prog_name=name)
        finally:
            sys.stdout.flush()
            if is_short:
                # Python would look for garbage among all modules as it exits.
                gc.freeze()
    except Exception as error:
        # Imported here: this module imports Redis and the client, which a command's help does not need.
        from cli.exit_codes import exit_with

        exit_with(error, is_process=called in _PROCESSES)
