"""The command line as a person calls it, in this process or in a new one."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
import typer

import tests.support.models.shared_model  # noqa: F401  # the commands of this process have one model
from cli.app import app, run

ROOT = Path(__file__).parents[2]
Called = subprocess.CompletedProcess[str]
Run = Callable[..., Called]
"""Calls `chorale` with these arguments, and environment variables as keywords."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def parse(words: Sequence[str]) -> None:
    """Has `chorale` parse these words without running the command; raises click.UsageError for a wrong one."""
    command: Any = typer.main.get_command(app)
    context, remaining = None, list(words)
    while isinstance(command, typer.core.TyperGroup):
        context = command.make_context("chorale", remaining, parent=context)
        _, command, remaining = command.resolve_command(context, [*context._protected_args, *context.args])
    command.make_context("chorale", remaining, parent=context)


def in_process(*arguments: str, stdin: str = "", **environment: str) -> Called:
    """Call `chorale` in this process; restores environment, streams, signal handlers, umask and logs afterwards."""
    input_ = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with _everything_restored():
        os.environ.update(_environment(environment))
        sys.argv, sys.stdin, sys.stdout, sys.stderr = ["chorale", *arguments], input_, out, err
        try:
            run()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    said, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess(list(arguments), code, said, complained)


def as_process(*arguments: str, **environment: str) -> Called:
    """Call `chorale` in a new process."""
    return subprocess.run(**command(*arguments, **environment), capture_output=True, timeout=60)


def command(*arguments: str, **environment: str) -> dict[str, Any]:
    """Returns the arguments for subprocess: `chorale` with this environment added to the test's own."""
    return {
        "args": [sys.executable, "-m", "cli", *arguments],
        "env": {**os.environ, "PYTHONPATH": str(ROOT), **_environment(environment)},
        "text": True,
        "stdin": subprocess.DEVNULL,
    }


def _environment(variables: dict[str, str]) -> dict[str, str]:
    return {"TERM": "dumb", "COLUMNS": "100", **variables}


@contextmanager
def _everything_restored() -> Iterator[None]:
    streams = sys.argv, sys.stdin, sys.stdout, sys.stderr
    environment, root = dict(os.environ), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    structlog_configuration = structlog.get_config()
    signals = {number: signal.getsignal(number) for number in _SIGNALS}
    umask = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(umask)
        sys.argv, sys.stdin, sys.stdout, sys.stderr = streams
        os.environ.clear()
        os.environ.update(environment)
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**structlog_configuration)
        for number, handler in signals.items():
            signal.signal(number, handler)
