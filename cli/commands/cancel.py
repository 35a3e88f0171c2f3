"""`chorale cancel`: end a request that has not ended yet."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli.options import AsJson


def cancel(
    request_id: Annotated[
        str, typer.Argument(metavar="ID", help="A request's id, as its answer has it.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """End a request: whoever waits for it gets an answer without hits, whose status is `cancelled`.

    A request that had ended before keeps its answer, and its status is shown.

    Exit code, by how the request has ended: 6 cancelled, 0 complete, 3 degraded, 4 failed, 5 skipped, 7 refused;
    1 for an unknown id, and for anything else.

    Examples:

        chorale cancel 6f1c7a52-8f1e-4d0b-9a54-0d1b6c3f2a77

        chorale cancel nightly-17 --json
    """
    from chorale_client import Status

    from cli.exit_codes import BY_STATUS, OTHER
    from cli.installation import find_installation
    from cli.terminal import stdout
    from config.visible_text import visible_json

    answer = find_installation(is_client=True).client().cancel(request_id)
    if as_json:
        sys.stdout.write(visible_json(answer.model_dump_json(exclude_unset=True)) + "\n")
    elif answer.status == Status.CANCELLED:
        stdout().print(f"{request_id}: cancelled, {answer.took_ms:,.0f} ms after it was accepted")
    else:
        stdout().print(f"{request_id}: had ended before as {answer.status}")
    raise typer.Exit(BY_STATUS.get(answer.status, OTHER))
