"""`chorale demo`: shows why hybrid retrieval is worth it, on the documentation of the running Python."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from shutil import which
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

import typer
from chorale_client.errors import ChoraleError

if TYPE_CHECKING:
    from rich.console import Console

    from cli.demo.installation import DemoInstallation
    from cli.demo.tour import Tour

WIDTH = 100
INTERRUPTED = 130
_NEXT = """\
  chorale up                        server, workers and sweeper, until Ctrl-C
  chorale index ~/docs -n docs      text, Markdown, HTML, CSV, JSON lines, PDF, Office
  chorale search "…" -n docs        with --explain: how each score came about

  From a program (`chorale env` prints the address):

"""
_CLIENT = Path(__file__).resolve().parents[2] / "examples" / "client.py"


def demo(
    console: Annotated[
        bool, typer.Option("--console", help="Serve the console too, until the demo ends.")
    ] = False,
) -> None:
    """Take a tour of the whole pipeline, in about a minute.

    Starts a Redis and the workers in a temporary folder, indexes the documentation inside this Python, and asks
    questions: some are answered best by words, some by meaning, and some by the fusion. Then a worker hangs, and the
    answer still comes on time. On a terminal the demo then takes your questions. At the end it deletes its folder.

    Examples:

        chorale demo

        chorale demo --console
    """
    from cli.demo.installation import demo_installation
    from cli.demo.tour import Tour
    from cli.local.measured_pipeline import LastLines
    from cli.local.ports import Address
    from cli.local.redis_server import free_port
    from cli.terminal import stdout

    terminal = stdout()
    terminal.width = min(terminal.width, WIDTH)
    http = Address("127.0.0.1", free_port()) if console else None
    try:
        terminal.print(
            "\n  Chorale: one question, several searches at once, one answer, on time.\n", style="bold"
        )
        with LastLines() as lines, demo_installation(lines, http=http) as installation:
            _prepare(terminal, installation)
            tour = Tour(terminal, installation)
            tour.show()
            _, _, program = _CLIENT.read_text(encoding="utf-8").partition('"""\n')
            path = "" if which("chorale") else "  export PATH=$PWD/.venv/bin:$PATH\n"
            terminal.print(
                f"\n  Now with your documents:\n\n{path}{_NEXT}{indent(program.strip(), '    ')}\n"
            )
            if http is not None:
                terminal.print(f"  The console: http://{http}/", style="bold")
                terminal.print(f"  Log in with this key: {installation.new_key()}\n", soft_wrap=True)
            if sys.stdin.isatty() and sys.stdout.isatty():
                _take_questions(tour)
            elif http is not None:
                signal.pause()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _prepare(console: Console, installation: DemoInstallation) -> None:
    """Index while the workers warm up, then ask once, so that each worker opens its index."""
    from cli.demo.python_docs import SOURCE, python_docs
    from cli.progress import ProgressBar
    from tasks.indexing.indexing_run import SourceDocuments
    from tasks.indexing.namespace_writer import index_corpus

    began_s = time.monotonic()
    console.print(
        "  bm25    compares words\n"
        "  vector  compares meaning\n"
        "  hyde    compares meaning, with the best passages of BM25 mixed in\n"
        "  rrf     fuses their ranks (reciprocal rank fusion)\n"
    )
    console.print("  Starting Redis and a worker for each queue, in a temporary folder …", style="dim")
    with ProgressBar(console) as bar:
        documents = list(python_docs())
        bar.say("  indexing", total=len(documents))
        report = index_corpus(
            installation.resources,
            SourceDocuments(documents, SOURCE, total=len(documents)),
            namespace=installation.namespace,
            progress=bar.show_indexing,
        )
        bar.say("  waiting for the workers")
        installation.supervisor.require_ready()
        installation.client.retrieve("a first question", namespace=installation.namespace, timeout_s=60)
    console.print(
        f"  Indexed what this Python says of itself: {report.added:,} documents, {report.passages:,} passages, "
        f"{time.monotonic() - began_s:.0f} s.",
        style="dim",
    )


def _take_questions(tour: Tour) -> None:
    """Answer questions until an empty line or the end of the input."""
    from cli.answer_view import show_answer

    with suppress(ImportError):
        import_module("readline")  # with it `input` can edit its line
    tour.console.print("  Ask the documentation yourself; an empty line ends.\n", style="dim")
    with suppress(EOFError):
        while text := input("  ? ").strip():
            try:
                show_answer(tour.console, tour.ask(text, timeout_s=10))
            except ChoraleError as error:
                tour.console.print(f"  {error}", style="red")
            tour.console.print()
