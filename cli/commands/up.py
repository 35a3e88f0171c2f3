"""`chorale up`: runs the whole pipeline in the foreground, and restarts processes that die or hang."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from chorale_client.redis_urls import without_password

from cli.local.child_output import JsonLines, PrefixedLines
from cli.local.processes import REDIS, running, worker_children
from cli.local.supervisor import NAME, READY_LIMIT_S, stop_on_signals


def up(
    processes: Annotated[
        str | None,
        typer.Option(
            "--processes",
            "-p",
            metavar="QUEUE=N,...",
            help="Processes for a queue, in place of CHORALE_WORKER_PROCESSES; one for a queue that is not named.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Log as JSON lines, each with its process.")
    ] = False,
) -> None:
    """Start the server and the workers, and look after them until Ctrl-C.

    Data is kept in CHORALE_HOME. Without CHORALE_REDIS_URL a Redis server is started on a socket in that
    folder, where commands in other terminals find it. A dead or hung process is started again. CHORALE_LAYOUT
    says which queues share a process; `chorale status` shows it.

    Examples:

        chorale up

        chorale up --processes bm25=2,vector=2

        CHORALE_HOME=~/law CHORALE_REDIS_URL=redis://localhost:6379/0 chorale up --json
    """
    from assembly.pipeline import load_pipeline
    from config.settings import load_settings

    if processes is not None:
        os.environ["CHORALE_WORKER_PROCESSES"] = processes
    if as_json:
        os.environ["CHORALE_LOG_FORMAT"] = "json"
    settings = load_settings()
    pipeline = load_pipeline(settings.pipeline_file)
    names = [NAME, REDIS, *(child.name for child in worker_children(settings, pipeline, {}))]
    output = JsonLines(sys.stdout) if as_json else PrefixedLines(sys.stdout, names)

    def say(line: str) -> None:
        output(NAME, line.encode())

    with running(settings, pipeline, output) as started:
        stop_on_signals(started.supervisor)
        say(f"starting in {settings.home}, Redis at {without_password(started.redis_url)}")
        missing = started.supervisor.wait_ready(READY_LIMIT_S)
        if started.supervisor.is_stopping:
            say("stopping before all were ready")
        elif missing:
            say(f"not ready yet: {', '.join(missing)}; see their lines above")
        else:
            say('ready: ask with `chorale search "…"` in another terminal; Ctrl-C stops everything')
        started.supervisor.wait()
    say("stopped")
