"""The database of the audit trail."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy.exc import SQLAlchemyError

from cli.installation import Installation
from models.audit_tables import RequestRow
from monitoring.checks import Finding
from records.database import SCHEMA, cause, database_url, open_database, trail_file

TAKE_A_LOCK = {
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": f"LOCK TABLE {RequestRow.__tablename__} IN ROW EXCLUSIVE MODE",
}
"""The lock that the drainer takes before it writes; this check releases it at once and writes nothing."""


def schema(installation: Installation) -> Iterator[Finding]:
    """Waits for a locked database as long as the drainer does."""
    settings = installation.settings
    url = database_url(settings.audit_database_url)
    address = url.render_as_string()
    mend = "start `chorale sweeper` (or `chorale up`) of this version: it brings the database up to date"
    # Opening a missing file would create it.
    if (file := trail_file(url)) is not None and not file.exists():
        yield Finding(f"there is no audit database {address} yet", mend)
        return
    engine = open_database(url)
    variable = (
        "CHORALE_AUDIT_URL" if settings.audit_url or not settings.database_url else "CHORALE_DATABASE_URL"
    )
    failing, remedy = "read", f"check {variable} and the server or file"
    try:
        with engine.connect() as connection:
            revision = SCHEMA.revision(connection)
            if revision == SCHEMA.newest:
                failing = "written"
                remedy = "end the process that locks it, or allow writing; ended requests wait in the outbox until then"
                connection.rollback()
                connection.exec_driver_sql(TAKE_A_LOCK[engine.dialect.name])
                connection.rollback()
    except SQLAlchemyError as error:
        yield Finding(f"the audit database {address} cannot be {failing}: {cause(error)}", remedy)
        return
    finally:
        engine.dispose()
    if revision is None:
        yield Finding(f"the audit database {address} has no tables yet", mend)
    elif revision != SCHEMA.newest:
        yield Finding(
            f"the audit database {address} has schema {revision}, and the newest that this version knows is {SCHEMA.newest}",
            "use the version that wrote it, or another database",
        )
