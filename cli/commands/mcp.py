"""`chorale mcp`: tools of the Model Context Protocol that search a running installation."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

import typer


def mcp(
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Namespace that the tools may search; may be given again.  The first is searched by default.",
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve streamable HTTP at /mcp instead of stdin and stdout."),
    ] = None,
    without_keys: Annotated[
        bool,
        typer.Option(
            "--without-keys", help="Let every program of this machine search; only on a loopback address."
        ),
    ] = False,
) -> None:
    """Offer the tools `search`, `fetch` and `chorale_search` to an MCP client.

    A client starts the command by itself and speaks to it by stdin and stdout. With `--http` every call needs a key
    with the scope `search:run` (`chorale keys create`), and finds what the key may find.

    Examples:

        chorale mcp --namespace docs

        chorale mcp -n docs --http 127.0.0.1:8100
    """
    from cli.installation import find_installation
    from cli.local.ports import Address
    from cli.output import print_line
    from models.errors import WrongDeclaration

    address = Address.parse(http) if http else None
    if without_keys and not (address and address.is_loopback):
        raise WrongDeclaration("--without-keys needs --http with a loopback address, such as 127.0.0.1:8100")
    installation = find_installation(is_anywhere=True, has_structlog=False)
    settings = installation.settings
    if installation.redis_url is None and not settings.cells:
        installation.running_redis()  # raises with what to do; a Redis that is away may come back
    try:
        from chorale_client.adapters.mcp import mcp_server
    except ImportError as error:
        raise WrongDeclaration(f"{error} (in a checkout: `make adapters`)") from None

    make_server = partial(
        mcp_server,
        settings.cells or installation.redis_url,
        broker_url=settings.broker_url,
        answer_ttl_s=settings.answer_ttl_s,
        namespaces=namespace or ["default"],
    )
    if address is None:
        make_server().run()
        return
    address.check_free("The MCP server", "--http")
    from cli.mcp_over_http import app_with_keys, server_of, within_the_key

    if without_keys:
        app = make_server().streamable_http_app(stateless_http=True, host=address.host)
    else:
        app = app_with_keys(make_server(allow=within_the_key), address, settings)
    access = "without keys" if without_keys else "with keys of `chorale keys create`"
    print_line(f"the MCP server listens at http://{address}/mcp, {access}", sys.stderr)
    server_of(app, address, settings).run()
