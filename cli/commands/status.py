"""`chorale status`: shows the workers, the queues, the outbox and the namespaces."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import AsJson


def status(
    as_json: AsJson = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print the metrics that the HTTP API has under /metrics.")
    ] = False,
) -> None:
    """Show workers, queues, namespaces and what is on its way to the audit tables.

    Examples:

        chorale status

        chorale status --json

        watch -n 1 chorale status

        chorale status --prometheus > /var/lib/node_exporter/chorale.prom
    """
    from cli.installation import find_installation
    from cli.installation_status import read_status
    from cli.terminal import print_result
    from cli.views.status import view

    installation = find_installation()
    if prometheus:
        from config.visible_text import visible
        from monitoring.exporter import render
        from monitoring.queues import read_queues

        redis, queues = installation.running_redis(), installation.pipeline.queues
        states = read_queues(redis, queues, broker_url=installation.settings.broker_url)
        typer.echo(visible(render(redis, queues=states).decode()), nl=False)
        return
    found = read_status(installation)
    print_result(found, *view(found), as_json=as_json)
