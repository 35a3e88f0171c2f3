"""The database of the audit trail, as commands read it, and its requests by the beginning of their ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from cli.installation import find_installation
from models.errors import ServiceError, cause
from models.shadow_ids import shadow_id
from models.tables.audit import RequestRow
from records.audit import queries
from records.database import SCHEMA, database_url, open_database, trail_file

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from config.settings import Settings

_MEND = "start `chorale sweeper` (or `chorale up`) of this version: it brings the database up to date"


class NoTrail(ServiceError):
    """There is no audit database with this version's schema, or it cannot be read.

    `what` is wrong, and `mend` is what to do about it.
    """

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(f"{what}: {mend}")
        self.what, self.mend = what, mend


@contextmanager
def trail(settings: Settings | None = None) -> Iterator[Engine]:
    """The audit database of these settings, or of the environment; raises NoTrail."""
    settings = settings or find_installation().settings
    url = database_url(settings.audit_database_url)
    database = f"audit database {url.render_as_string()}"
    # Opening a missing file would create it.
    if (file := trail_file(url)) is not None and not file.exists():
        raise NoTrail(f"there is no {database} yet", _MEND)
    engine = open_database(url)
    try:
        with engine.connect() as connection:
            revision = SCHEMA.revision(connection)
        if revision is None:
            raise NoTrail(f"the {database} has no tables yet", _MEND)
        if revision != SCHEMA.newest:
            raise NoTrail(
                f"the {database} has schema {revision}, and the newest that this version knows is {SCHEMA.newest}",
                "use the version that wrote it; `chorale sweeper` of this version brings an older one up to date",
            )
        yield engine
    except SQLAlchemyError as error:
        name = "AUDIT" if settings.audit_url or not settings.database_url else "DATABASE"
        why = f"the {database} cannot be read: {cause(error)}"
        raise NoTrail(why, f"check CHORALE_{name}_URL and the server or file") from error
    finally:
        engine.dispose()


def recorded_request(begins: str) -> RequestRow:
    """The whole request with this id, or beginning of an id; raises ServiceError if there is none."""
    with trail() as engine:
        request_id = matching(engine, begins)
        row = None if request_id is None else queries.show(engine, request_id)
    if row is None:
        raise ServiceError(
            f"the trail has no request {begins!r}; `chorale audit last` lists the newest "
            "(a request that has just ended is there within a second)"
        )
    return row


def matching(engine: Engine, begins: str) -> str | None:
    """The id that is `begins` or starts with it; None if there is none.  Raises ServiceError if there are several."""
    column = RequestRow.request_id
    alike = (
        select(column).where(column.startswith(begins, autoescape=True)).distinct().order_by(column).limit(3)
    )
    with engine.connect() as connection:
        ids = list(connection.scalars(alike))
    # The shortest id comes first: an id that another one starts with is found too.
    if len(ids) > 1 and ids[0] != begins and ids[1:] != [shadow_id(ids[0])]:
        raise ServiceError(f"several ids begin with {begins!r}: {', '.join(ids)}; give more of the id")
    return ids[0] if ids else None
