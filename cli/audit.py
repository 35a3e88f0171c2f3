"""`chorale audit`: what was asked and answered, from the audit tables."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

audit = typer.Typer(
    name="audit",
    help="What was asked and answered: the audit trail.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


class NoTrail(ServiceError):
    """There is no audit trail to read, or not one of this version."""


@audit.command()
def last(
    n: Annotated[int, typer.Argument(metavar="[N]", min=1, max=10_000, help="How many.")] = 10,
    as_json: AsJson = False,
) -> None:
    """List the last requests, newest first.

    Examples:

        chorale audit last

        chorale audit last 100 --json
    """
    from audit import queries
    from cli.audit_view import lines_table
    from cli.terminal import stdout

    with trail() as engine:
        lines = queries.last(engine, n)
    if as_json:
        _print_json({"requests": lines})
    elif lines:
        stdout().print(lines_table(lines))
    else:
        stdout().print("nothing was asked yet")


@audit.command()
def show(
    request_id: Annotated[str, typer.Argument(metavar="ID", help="The request's id, or how it begins.")],
    as_json: AsJson = False,
) -> None:
    """Show everything about one request: questions, branches, hits; with `--json` every candidate of every branch.

    Examples:

        chorale audit show 4ad2be09-4ddf-40c0-a03e-e38b7d6e3a14

        chorale audit show 4ad2be09 --json
    """
    from audit import queries
    from cli.audit_view import show_request
    from cli.terminal import stdout

    with trail() as engine:
        whole = matching(engine, request_id)
        found = None if whole is None else queries.show(engine, whole)
    if found is None:
        raise NoTrail(
            f"the trail has no request {request_id!r}; `chorale audit last` lists the newest "
            "(one that has just ended comes within a second)"
        )
    if as_json:
        _print_json({"request": found})
    else:
        show_request(stdout(), found)


def matching(engine: Engine, begins: str) -> str | None:
    """The one id that is this, or begins so; raises NoTrail where several do."""
    from sqlalchemy import select

    from models.audit_tables import RequestRow

    column = RequestRow.request_id
    alike = (
        select(column).where(column.startswith(begins, autoescape=True)).distinct().order_by(column).limit(3)
    )
    with engine.connect() as connection:
        ids = list(connection.scalars(alike))
    # The shortest comes first, so an id that begins another one is found too.
    if len(ids) > 1 and ids[0] != begins:
        raise NoTrail(f"several ids begin with {begins!r}: {', '.join(ids)}; say more of it")
    return ids[0] if ids else None


@contextmanager
def trail() -> Iterator[Engine]:
    """The audit database, if it is there and of this version; raises NoTrail."""
    from sqlalchemy.exc import SQLAlchemyError

    from audit.database import database_url, open_database
    from audit.drainer import cause
    from audit.schema import HEAD, revision
    from cli.surroundings import surroundings

    url = database_url(surroundings().settings.audit_database_url)
    shown = url.render_as_string()
    # Opening a file that is not there would make it.
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        raise NoTrail(f"there is no audit trail {shown} yet: `chorale up` makes and fills it")
    engine = open_database(url)
    try:
        with engine.connect() as connection:
            found = revision(connection)
        if found != HEAD:
            raise NoTrail(
                f"the audit database {shown} has schema {found or 'none'} instead of {HEAD}: "
                "`chorale sweeper` of this version brings an older one up to date"
            )
        yield engine
    except SQLAlchemyError as error:
        raise NoTrail(f"the audit database {shown} cannot be read: {cause(error)}") from error
    finally:
        engine.dispose()


def _print_json(fields: dict[str, Any]) -> None:
    from chorale_client.words import WIRE_VERSION
    from pydantic_core import to_json

    print(to_json({"v": WIRE_VERSION, **fields}, inf_nan_mode="null").decode())
