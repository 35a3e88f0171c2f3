"""`chorale status`: shows the workers, the queues, the outbox and the namespaces."""

from __future__ import annotations

from cli.options import AsJson


def status(as_json: AsJson = False) -> None:
    """Show workers, queues, namespaces and what is on its way to the audit tables.

    Examples:

        chorale status

        chorale status --json

        watch -n 1 chorale status
    """
    from cli.installation import find_installation
    from cli.monitoring.status import read_status
    from cli.terminal import print_json, stdout
    from cli.views.status import view

    found = read_status(find_installation())
    if as_json:
        print_json(found.to_wire())
        return
    console = stdout()
    for part in view(found):
        console.print(part)
