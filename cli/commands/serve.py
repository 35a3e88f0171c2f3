"""`chorale serve`: runs one process of the HTTP API."""

from __future__ import annotations

from typing import Annotated

import typer


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for every one of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8000,
) -> None:
    """Serve the HTTP API until stopped; `chorale up --http` starts it by itself.

    It needs Redis and the audit database, and holds no model. Callers need a key (`chorale keys create`). It speaks plain
    HTTP: put a proxy with TLS in front of it. Ctrl-C or SIGTERM stops it: a call that waits is told where the answer of
    its search will be, and everything else in flight may go on for CHORALE_SOFT_SHUTDOWN_S.

    Examples:

        chorale serve

        chorale serve --host 0.0.0.0 --port 8080
    """
    from cli.installation import find_installation
    from cli.local.ports import Address

    installation = find_installation(is_client=True)
    if installation.redis_url is None:
        installation.running_redis()  # raises with what to do; a Redis that is away may come back
    Address(host, port).check_free("The HTTP API", "--port")

    from api.serving import serve as run

    run(host=host, port=port)
