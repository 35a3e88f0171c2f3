"""`chorale env`: prints the environment variables with the addresses of the running installation."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, TypeAlias

import typer

from cli.installation import find_installation
from cli.options import AsJson
from cli.output import print_json, print_line

ForCelery: TypeAlias = Annotated[
    bool, typer.Option("--celery", help="In Celery's spelling, which differs for a Unix socket.")
]


def env(as_json: AsJson = False, celery: ForCelery = False) -> None:
    """Print the variables with which applications, examples and Celery find the running Chorale, with passwords.

    Chorale's own commands need none of them: they find the `chorale up` of their CHORALE_HOME.

    Examples:

        eval "$(chorale env)"

        eval "$(chorale env --celery)"
    """
    from chorale_client.connections.urls import SCHEMES, celery_url

    from config.home import find_redis_url

    installation = find_installation(is_anywhere=True, has_structlog=False)
    settings = installation.settings
    # The address of the Redis that `chorale up` runs for this home comes first: the terminal may have the address of an earlier one.
    running_url = find_redis_url(settings.home) if settings.redis_url else installation.redis_url
    if running_url is None:
        installation.running_redis()
    addresses = {
        "CHORALE_REDIS_URL": running_url or installation.redis_url,
        "CHORALE_BROKER_URL": settings.broker_url,
    }
    variables = {
        name: celery_url(value) if value.startswith("rediss:" if not celery else SCHEMES) else value
        for name, value in addresses.items()
        if value is not None
    }
    if as_json:
        print_json({"environment": variables})
        return
    if sys.stdout.isatty():
        print_line('call it as `eval "$(chorale env)"`: this sets', sys.stderr)
    for name, value in variables.items():
        print_line(f"export {name}={shlex.quote(value)}")
