"""`chorale up`: runs the whole pipeline in the foreground, and restarts processes that die or hang."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated

import typer
from chorale_client.connections.urls import without_password

from cli.installation import Installation, refuse_other_home
from cli.local.child_process import JsonLines, PrefixedLines
from cli.local.ports import Address
from cli.local.processes import REDIS, check_stores, running, worker_children
from cli.local.servers import FLOWER, HTTP, VARIABLE, api_lines, flower_page, login
from cli.local.supervisor import NAME, READY_LIMIT_S, stop_on_signals
from cli.namespace_states import language_lines, unread_file_lines

SAYS_EVERY_S = 5.0
"""While processes start."""


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
    flower: Annotated[
        bool,
        typer.Option(
            "--flower", help="Start Flower too, which shows each request; sets CHORALE_TASK_EVENTS."
        ),
    ] = False,
    flower_port: Annotated[
        int, typer.Option(min=1, max=65_535, help="Flower's port on this machine's loopback address.")
    ] = 5555,
    http: Annotated[
        bool,
        typer.Option(
            "--http",
            help="Serve the HTTP API and the console too; the first start makes a key that may search.",
        ),
    ] = False,
    http_bind: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of the HTTP API, which has no TLS.")
    ] = "127.0.0.1:8000",
    as_json: Annotated[
        bool, typer.Option("--json", help="Log as JSON lines, each with its process.")
    ] = False,
) -> None:
    """Start the server and the workers, and look after them until Ctrl-C.

    Data is kept in CHORALE_HOME. Without CHORALE_REDIS_URL a Redis server is started on this machine's loopback address,
    with a password. Commands in other terminals find this Redis, and take the settings of this command if they have
    none of their own; `chorale env` prints its address for applications. A dead or hung process is started again.
    CHORALE_LAYOUT says which queues share a process; `chorale status` shows it.

    Flower asks for a login: that of FLOWER_BASIC_AUTH (`user:password`), else one that the first start writes into
    CHORALE_HOME.

    Examples:

        chorale up

        chorale up --processes bm25=2,vector=2

        chorale up --flower

        chorale up --http --http-bind 0.0.0.0:8080
    """
    from config.settings import load_settings
    from tasks.wiring.pipeline import load_pipeline

    if processes is not None:
        os.environ["CHORALE_WORKER_PROCESSES"] = processes
    if as_json:
        os.environ["CHORALE_LOG_FORMAT"] = "json"
    if flower:
        os.environ["CHORALE_TASK_EVENTS"] = "true"
    settings = load_settings()
    refuse_other_home(Installation(settings, settings.redis_url))
    pipeline = load_pipeline(settings.pipeline_file)
    check_stores(settings, pipeline)
    names = [NAME, REDIS, FLOWER, HTTP, *(child.name for child in worker_children(settings, pipeline, {}))]
    output = JsonLines(sys.stdout) if as_json else PrefixedLines(sys.stdout, names)

    def say(line: str) -> None:
        output(NAME, line.encode())

    address = Address.parse(http_bind) if http else None
    with running(
        settings, pipeline, output, flower_port=flower_port if flower else None, http=address
    ) as started:
        stop_on_signals(started.supervisor)
        whose = ", which CHORALE_REDIS_URL names" if settings.redis_url else ""
        say(f"starting in {settings.home}, Redis at {without_password(started.redis_url)}{whose}")
        give_up_s = time.monotonic() + READY_LIMIT_S
        while missing := started.supervisor.wait_ready(SAYS_EVERY_S):
            supervisor = started.supervisor
            has_ended = supervisor.is_stopping or supervisor.wait(0)
            if has_ended or supervisor.is_serving or time.monotonic() >= give_up_s:
                break
            say(f"waiting for {', '.join(missing)}")
        if started.supervisor.is_stopping:
            say("stopping before all were ready")
        elif missing and not started.supervisor.is_serving:
            say(f"not ready yet: {', '.join(missing)}; see their lines above")
        else:
            for why, children in started.supervisor.reasons().items():
                say(f"not ready: {', '.join(children)}: {why}; until then answers may be degraded")
            if flower:
                credentials = f"that of {VARIABLE}" if os.environ.get(VARIABLE) else login(settings.home)
                say(f"Flower: {flower_page(flower_port)}, login {credentials}")
            if address is not None:
                for line in api_lines(settings, address):
                    say(line)
            say(
                'applications: `eval "$(chorale env)"` sets CHORALE_REDIS_URL, which the client and the examples read'
            )
            say(
                'ready: `chorale index FOLDER`, then `chorale search "…"`, in another terminal; Ctrl-C stops everything'
            )
            running_here = Installation(settings, started.redis_url)
            for line in [*unread_file_lines(running_here), *language_lines(running_here)]:
                say(line)
        started.supervisor.wait()
    say("stopped")
