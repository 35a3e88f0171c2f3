"""The audit trail: its database, and the outbox of ended requests that are not written yet."""

from __future__ import annotations

from collections.abc import Iterator

from chorale_client.keys import CALLBACKS
from sqlalchemy.exc import SQLAlchemyError

from cli.doctor.reports import Finding
from cli.installation import Installation
from ledger.backlog import read_outbox_bound
from models.audit_tables import RequestRow
from records.audit.drainer import cause
from records.audit.outbox import UNREADABLE, outbox_state
from records.database import SCHEMA, database_url, open_database, trail_file

TAKE_A_LOCK = {
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": f"LOCK TABLE {RequestRow.__tablename__} IN ROW EXCLUSIVE MODE",
}
"""The lock that the drainer takes before it writes; this check releases it at once and writes nothing."""

OLD_S = 30.0
"""An ended request is usually in the tables within a second."""


def schema(installation: Installation) -> Iterator[Finding]:
    """Waits for a locked database as long as the drainer does."""
    url = database_url(installation.settings.audit_database_url)
    address = url.render_as_string()
    mend = "start `chorale sweeper` (or `chorale up`) of this version: it brings the database up to date"
    # Opening a missing file would create it.
    if (file := trail_file(url)) is not None and not file.exists():
        yield Finding(f"there is no audit database {address} yet", mend)
        return
    engine = open_database(url)
    failing, remedy = "read", "check CHORALE_AUDIT_URL and the server or file"
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


def outbox(installation: Installation) -> Iterator[Finding]:
    redis = installation.running_redis()
    entries, age_s = outbox_state(redis)
    bound = read_outbox_bound(redis)
    is_filling = 0 < bound.entries <= 2 * entries
    if age_s > OLD_S or is_filling:
        most = f" of at most {bound.entries:,}" if bound.entries else ""
        without = "; further ones wait without their candidates, and then requests are refused"
        yield Finding(
            f"{entries:,}{most} ended requests wait for the audit tables, the oldest for {age_s:,.0f} s"
            f"{without if is_filling else ''}",
            "see the log of `chorale sweeper`: usually its database is locked or away",
        )
    unsent, age_s = outbox_state(redis, CALLBACKS)
    if age_s > OLD_S:
        yield Finding(
            f"{unsent:,} ended requests wait for the tasks that follow them (on_end, link), the oldest for {age_s:,.0f} s",
            "see the log of `chorale sweeper`: usually the broker is away, or RabbitMQ does not have the queue yet",
        )
    if aside := int(redis.xlen(UNREADABLE)):
        yield Finding(
            f"{aside:,} ended requests could not be written and are kept aside",
            f"read them with `redis-cli XRANGE {UNREADABLE} - + COUNT 5`, then delete the key",
        )
