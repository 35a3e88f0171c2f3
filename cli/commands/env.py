"""`chorale env`: prints the address of the running installation for a shell."""

from __future__ import annotations

import shlex
import sys

from cli.options import AsJson


def env(as_json: AsJson = False) -> None:
    """Print the variables by which applications, examples and Celery find what runs here, with passwords.

    Chorale's own commands need none of them: they find the `chorale up` of their CHORALE_HOME.

    Examples:

        eval "$(chorale env)"

        chorale env --json
    """
    from cli.installation import find_installation
    from cli.terminal import print_json, print_line

    installation = find_installation()
    installation.running_redis()
    settings = installation.settings
    found = {"CHORALE_REDIS_URL": installation.redis_url, "CHORALE_BROKER_URL": settings.broker_url}
    variables = {name: value for name, value in found.items() if value is not None}
    if as_json:
        print_json({"environment": variables})
        return
    if sys.stdout.isatty():
        print_line('call it as `eval "$(chorale env)"`: this sets', sys.stderr)
    for name, value in variables.items():
        print_line(f"export {name}={shlex.quote(value)}")
