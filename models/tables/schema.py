"""A schema of SQL tables, which Alembic brings up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, MetaData, inspect, text

from models.errors import ServiceError

_ALEMBIC = threading.Lock()
"""Alembic's `context` and `op` are global: one of two simultaneous upgrades would write into the other's database."""


class UnknownSchema(ServiceError):
    """Another version made the tables; start that version, or use another database."""


@dataclass(frozen=True, slots=True)
class Schema:
    name: str
    """The name of the database in errors."""
    newest: str
    """The last revision; Alembic is not loaded for a database that has it."""
    revisions: Path
    """The folder with one file for each revision."""
    version_table: str
    declared: Callable[[], Sequence[MetaData]]
    """The tables of the newest revision."""

    def revision(self, connection: Connection) -> str | None:
        """The database's revision; None if it has no tables of this schema."""
        if not inspect(connection).has_table(self.version_table):
            return None
        revision: str | None = connection.scalar(text(f"SELECT version_num FROM {self.version_table}"))
        return revision

    def bring_up(self, connection: Connection) -> None:
        """Create or change the tables in the caller's transaction; the caller holds a lock.  Raises UnknownSchema.

        A new database gets the declared tables at once, and revisions change those of an older one (Alembic's cookbook, "Building an
        Up to Date Database from Scratch").
        """
        before = self.revision(connection)
        if before == self.newest:
            return
        from alembic import command
        from alembic.config import Config
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", _option(Path(__file__).parent / "migrations"))
        config.set_main_option("version_locations", _option(self.revisions))
        config.set_main_option("path_separator", "newline")
        config.attributes.update(connection=connection, version_table=self.version_table)
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if before is not None and before not in known:
            raise UnknownSchema(
                f"{self.name} {connection.engine.url.render_as_string()} has schema {before}, and the newest that this "
                f"version knows is {self.newest}: start the version that wrote it, or use another database"
            )
        with _ALEMBIC:
            if before is not None:
                command.upgrade(config, "head")
                return
            for metadata in self.declared():
                metadata.create_all(connection, checkfirst=False)
            command.stamp(config, "head")


def _option(folder: Path) -> str:
    return str(folder).replace("%", "%%")
