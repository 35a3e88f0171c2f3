"""`chorale worker`: runs one process that works on queues."""

from __future__ import annotations

import os
from typing import Annotated

import typer


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
    """Work on one or more queues until stopped; `chorale up` starts them by itself.

    It takes no work before its model is warm. Ctrl-C or SIGTERM stops it after the work that it has begun.

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
