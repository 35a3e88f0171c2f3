"""`chorale sweeper`: ends requests whose worker did not, and moves ended requests into the audit tables."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def sweeper(
    only: Annotated[
        Literal["sweep", "drain"] | None,
        typer.Option(help="Do only one of the two duties: end requests, or fill the audit tables."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of this process in its heartbeat and logs.")] = "sweeper",
) -> None:
    """Join and end requests from the ledger, and drain the outbox; `chorale up` starts one by itself.

    Several may run: one of them handles a request at a time.

    Examples:

        chorale sweeper

        chorale sweeper --only drain --name drainer
    """
    from tasks.worker.sweeper_process import run

    run(name=name, only=only)
