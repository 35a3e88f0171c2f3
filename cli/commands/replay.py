"""`chorale replay`: fuses an audited request again, without any store."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import AsJson
from models.errors import ServiceError


def replay(
    request_id: Annotated[str, typer.Argument(metavar="ID", help="The request's id, or its beginning.")],
    configuration: Annotated[
        str | None, typer.Option(help="Fuse with this configuration instead of the request's.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fuse a past request again from its audit rows: as it was, or under another configuration.

    Nothing has to run, and no model is read. The method, the weights and the branches are then those of the other
    configuration; filters, thresholds and boosts stay those of the request. What the rows do not hold is named.

    Exit code: 0 replayed, 8 replayed without what the rows do not hold, 1 the recorded answer is another one (or any error),
    2 wrong usage.

    Examples:

        chorale replay 4ad2be09

        chorale replay 4ad2be09 --configuration scores --json
    """
    from audit import queries
    from cli.commands.audit import matching, trail
    from cli.exit_codes import OTHER, PART_DONE
    from cli.terminal import print_result
    from cli.views.replay import replay_parts
    from config.settings import load_settings
    from evaluation.replay import replay as fused_again
    from tasks.request.planning import NotOffered
    from wiring.pipeline import load_pipeline

    pipeline = load_pipeline(load_settings().pipeline_file)
    with trail() as engine:
        whole = matching(engine, request_id)
        row = None if whole is None else queries.show(engine, whole)
    if row is None:
        raise ServiceError(f"the trail has no request {request_id!r}; `chorale audit last` lists the newest")
    try:
        found = fused_again(row, pipeline, configuration=configuration)
    except NotOffered as error:
        raise typer.BadParameter(str(error), param_hint="--configuration") from None
    print_result(found.to_wire(), *replay_parts(found), as_json=as_json)
    if not found.is_equal:
        raise typer.Exit(OTHER)
    if found.gaps:
        raise typer.Exit(PART_DONE)
