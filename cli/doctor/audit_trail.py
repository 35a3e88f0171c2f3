"""The database of the audit trail."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy.exc import SQLAlchemyError

from cli.audit.trail import NoTrail, trail
from cli.installation import Installation
from models.errors import cause
from models.tables.audit import RequestRow
from monitoring.checks import Finding

TAKE_A_LOCK = {
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": f"LOCK TABLE {RequestRow.__tablename__} IN ROW EXCLUSIVE MODE",
}
"""The lock that the drainer takes before it writes; this check releases it at once and writes nothing."""


def schema(installation: Installation) -> Iterator[Finding]:
    """Waits for a locked database as long as the drainer does."""
    try:
        with trail(installation.settings) as engine:
            try:
                with engine.connect() as connection:
                    connection.exec_driver_sql(TAKE_A_LOCK[engine.dialect.name])
                    connection.rollback()
            except SQLAlchemyError as error:
                yield Finding(
                    f"the audit database {engine.url.render_as_string()} cannot be written: {cause(error)}",
                    "end the process that locks it, or allow writing; ended requests wait in the outbox until then",
                )
    except NoTrail as error:
        yield Finding(error.what, error.mend)
