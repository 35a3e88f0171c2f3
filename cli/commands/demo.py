"""`chorale demo`: shows why hybrid retrieval is worth it, on the handbook of a small ferry company."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer
from chorale_client.errors import ChoraleError

if TYPE_CHECKING:
    from cli.demo.tour import Tour

WIDTH = 100
INTERRUPTED = 130
_BRANCHES = """
  Chorale: one question, several searches at once, one answer, on time.

  bm25    compares words
  vector  compares meaning
  hyde    compares meaning, with the best passages of BM25 mixed in
  fused   the ranks of all three, joined (reciprocal rank fusion)
"""
_NEXT = """
  Now with your documents:
{path}
  chorale up                        server, workers and sweeper, until Ctrl-C
  chorale index ~/docs -n docs      text, Markdown, HTML, CSV, JSON lines, PDF, Office
  chorale search "…" -n docs        with --explain: how each score came about

  From a program (`chorale env` prints the address):

    from chorale_client import Chorale
    hits = Chorale().retrieve("Who pays for repairs?", namespace="docs").hits
"""


def demo(
    console: Annotated[
        bool, typer.Option("--console", help="Serve the console too, until the demo ends.")
    ] = False,
) -> None:
    """Take a tour of the whole pipeline, in half a minute.

    Starts a Redis and the workers in a temporary folder, indexes the handbook of a ferry company that does not exist, and
    asks questions: the captions say which search puts the right text first. Then a worker hangs, and the answer still
    comes on time. On a terminal the demo then takes your questions. At the end it deletes its folder.

    Examples:

        chorale demo

        chorale demo --console
    """
    from cli.demo.installation import demo_installation
    from cli.demo.tour import Tour
    from cli.local.measured_pipeline import LastLines
    from cli.local.ports import Address
    from cli.local.redis_server import free_port
    from cli.progress import working_bar
    from cli.terminal import stdout

    terminal = stdout()
    terminal.width = min(terminal.width, WIDTH)
    http = Address("127.0.0.1", free_port()) if console else None
    began_s = time.monotonic()
    try:
        terminal.print(_BRANCHES)
        terminal.print("  Starting Redis and a worker for each search, in a temporary folder …", style="dim")
        with (
            LastLines() as lines,
            working_bar(" ") as bar,
            demo_installation(lines, http=http) as installation,
        ):
            report = installation.index()
            bar.stop()
            took_s = time.monotonic() - began_s
            terminal.print(
                f"  Indexed {report.added} texts of a handbook.  Ready after {took_s:.0f} s.", style="dim"
            )
            tour = Tour(terminal, installation)
            tour.show()
            terminal.print(
                _NEXT.format(path="" if which("chorale") else "\n  export PATH=$PWD/.venv/bin:$PATH")
            )
            if http is not None:
                terminal.print(f"  The console: http://{http}/", style="bold")
                terminal.print(f"  Log in with this key: {installation.new_key()}\n", soft_wrap=True)
            if sys.stdin.isatty() and sys.stdout.isatty():
                _answer_questions(tour)
            elif http is not None:
                signal.pause()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _answer_questions(tour: Tour) -> None:
    """Answer questions until an empty line or the end of the input."""
    from cli.answer_view import show_answer

    with suppress(ImportError):
        import_module("readline")  # with it `input` can edit its line
    tour.console.print("  Ask the handbook yourself; an empty line ends.\n", style="dim")
    with suppress(EOFError):
        while text := input("  ? ").strip():
            try:
                show_answer(tour.console, tour.ask(text, timeout_s=10, top_k=3, snippet_chars=160))
            except ChoraleError as error:
                tour.console.print(f"  {error}", style="red")
            tour.console.print()
