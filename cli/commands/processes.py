"""`chorale worker`, `serve` and `sweeper`: run one process each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from models.duty import Duty
    from tasks.wiring.resources import Resources


def worker(
    queues: Annotated[
        list[str],
        typer.Argument(metavar="QUEUE...", help="Queues to work on: `bm25` or, in full, `chorale.bm25`."),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of this process in its heartbeat and logs; by default the first queue and the process id."
        ),
    ] = None,
) -> None:
    """Work on one or more queues until stopped; `chorale up` starts workers by itself.

    A worker takes no task before its model is loaded. Ctrl-C or SIGTERM stops it after its current task.

    Examples:

        chorale worker bm25

        chorale worker chorale.vector --name vector-2

        chorale worker retrieve fusion
    """
    from config.blas_threads import limit_threads

    limit_threads()
    from tasks.worker.worker_process import run_worker

    short_names = [queue.removeprefix("chorale.") for queue in queues]
    full_names = [f"chorale.{queue}" for queue in short_names]
    run_worker(full_names, name=name or f"{short_names[0]}-{os.getpid()}")


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0: every address of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8000,
) -> None:
    """Serve the HTTP API and the console until stopped; `chorale up --http` starts both by itself.

    The API needs Redis and the audit database, and no model. Callers need a key (`chorale keys create`). The API
    speaks plain HTTP: put a proxy with TLS in front of it. After Ctrl-C or SIGTERM, a call that waits gets the
    address of its answer, and other calls may go on for CHORALE_SOFT_SHUTDOWN_S.

    Examples:

        chorale serve

        chorale serve --host 0.0.0.0 --port 8080
    """
    from cli.installation import find_installation
    from cli.local.ports import Address

    installation = find_installation(is_anywhere=True, has_structlog=False)
    if installation.redis_url is None and not installation.settings.cells:
        installation.running_redis()  # raises with what to do; a Redis that is away may come back
    Address(host, port).check_free("The HTTP API", "--port")

    from api.serving import serve as run
    from console.site import create_site

    doctor = (sys.executable, "-m", "cli", "doctor", "--json")
    run(partial(create_site, doctor=doctor), host=host, port=port)


def sweeper(
    only: Annotated[
        Literal["sweep", "drain"] | None,
        typer.Option(help="`sweep`: only end requests; `drain`: only fill the audit tables."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of this process in its heartbeat and logs.")] = "sweeper",
) -> None:
    """Join and end requests from the ledger, and drain the outbox; `chorale up` starts one by itself.

    Several may run.  One of them at a time ends requests, and all share the writing of audit rows.

    Examples:

        chorale sweeper

        chorale sweeper --only drain --name drainer
    """
    from tasks.worker.sweeper_process import run

    run(name=name, only=only, also=adapting)


def adapting(resources: Resources, trail: Engine, prepare: Callable[[], None]) -> Iterator[Duty]:
    """The duty that adapts weights, if a configuration declares it."""
    if any(configuration.adapt for configuration in resources.pipeline.configurations.values()):
        from evaluation.tuning.adapting import Adapting

        yield Adapting(resources, trail, prepare)
