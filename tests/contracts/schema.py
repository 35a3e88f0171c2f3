"""What every schema of SQL tables promises, on SQLite and PostgreSQL: it is upgraded once, despite concurrent starts and
kills."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, MetaData, create_engine, inspect, text

from models.tables.schema import Schema
from tests.support.servers.database_process import BRING_UP, line_of, started
from tests.support.servers.databases import empty_database


class SchemaContract:
    what: ClassVar[str]
    """In the table of `tests.support.servers.database_process`."""
    schema: ClassVar[Schema]
    declared: ClassVar[MetaData | tuple[MetaData, ...]]
    a_table_in_the_middle: ClassVar[str]
    refusal: ClassVar[type[Exception]]

    @pytest.fixture(params=["sqlite", "postgresql"])
    def url(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
        with empty_database(request.param, tmp_path) as url:
            yield url

    @pytest.fixture
    def engine(self, url: str) -> Iterator[Engine]:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        yield engine
        engine.dispose()

    def bring_up(self, url: str) -> None:
        BRING_UP[self.what](url)

    def differences(self, engine: Engine) -> list[object]:
        """Alembic's differences between the database and the declared tables."""
        partitions = "SELECT relname FROM pg_class WHERE relispartition"
        with engine.connect() as connection:
            excluded = {self.schema.version_table}
            if engine.dialect.name == "postgresql":
                excluded.update(connection.scalars(text(partitions)))
            options = {
                "include_name": lambda name, kind, _: kind != "table" or name not in excluded,
                "compare_server_default": True,
            }
            context = MigrationContext.configure(connection, opts=options)
            return list(compare_metadata(context, self.declared))  # type: ignore[arg-type]  # it takes several too

    def test_a_new_database_has_exactly_the_declared_tables(self, url: str, engine: Engine) -> None:
        self.bring_up(url)
        assert self.differences(engine) == []
        with engine.connect() as connection:
            assert self.schema.revision(connection) == self.schema.newest
        # The comparison would notice an additional column.
        with engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE {self.a_table_in_the_middle} ADD COLUMN colour VARCHAR"))
        assert len(self.differences(engine)) == 1

    @pytest.mark.slow
    def test_processes_that_start_at_once_all_find_the_newest_schema(self, url: str, engine: Engine) -> None:
        with ExitStack() as stack:
            processes = [stack.enter_context(started("migrate", self.what, url)) for _ in range(2)]
            assert [line_of(process) for process in processes] == ["ready"] * 2
            for process in processes:
                process.stdin.write("go\n")
            assert [process.process.wait(30) for process in processes] == [0, 0]
        assert self.differences(engine) == []

    def test_upgrades_of_two_databases_in_two_threads_do_not_mix(self, tmp_path: Path) -> None:
        """For example, a sweeper creates the audit tables while a store creates those of the documents."""
        together = threading.Barrier(len(BRING_UP))

        def bring_up(what: str, url: str) -> None:
            together.wait(10)
            BRING_UP[what](url)

        with ThreadPoolExecutor(len(BRING_UP)) as threads:
            for number in range(3):
                urls = {what: f"sqlite:///{tmp_path}/{number}-{what}.db" for what in BRING_UP}
                list(threads.map(bring_up, urls.keys(), urls.values()))
                engine = create_engine(urls[self.what])
                assert self.differences(engine) == []
                engine.dispose()

    @pytest.mark.slow
    def test_a_killed_upgrade_leaves_the_old_schema_and_the_next_one_completes_it(
        self, url: str, engine: Engine
    ) -> None:
        with started("migrate_and_die", self.what, url, self.a_table_in_the_middle) as upgrading:
            assert upgrading.process.wait(30) == -signal.SIGKILL
        assert inspect(engine).get_table_names() == []
        self.bring_up(url)
        assert self.differences(engine) == []

    def test_a_later_revision_changes_the_tables_of_an_older_database(
        self, url: str, engine: Engine, tmp_path: Path
    ) -> None:
        self.bring_up(url)
        folder = shutil.copytree(self.schema.revisions, tmp_path / "revisions")
        (folder / "later.py").write_text(
            "import sqlalchemy as sa\nfrom alembic import op\n"
            f"revision, down_revision = 'later', {self.schema.newest!r}\n"
            "def upgrade():\n"
            f"    op.add_column({self.a_table_in_the_middle!r}, sa.Column('colour', sa.Text))\n"
        )
        later = replace(self.schema, newest="later", revisions=folder)
        with engine.begin() as connection:
            later.bring_up(connection)
            assert later.revision(connection) == "later"
        assert len(self.differences(engine)) == 1

    def test_a_second_upgrade_changes_nothing(self, url: str, engine: Engine) -> None:
        self.bring_up(url)
        with engine.begin() as connection:
            connection.execute(text(f"DROP TABLE {self.a_table_in_the_middle}"))
        self.bring_up(url)
        assert not inspect(engine).has_table(self.a_table_in_the_middle)

    @pytest.mark.parametrize("other", ["9999", "0005"])
    def test_the_schema_of_another_version_is_refused_and_the_message_says_what_to_do(
        self, url: str, engine: Engine, other: str
    ) -> None:
        """`0005` is that of a checkout from before the first release."""
        self.bring_up(url)
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE {self.schema.version_table} SET version_num = '{other}'"))
        message = (
            rf"{self.schema.name} .*has schema {other}, and the newest that this version knows is {self.schema.newest}: "
            "start the version that wrote it, or use another database"
        )
        with pytest.raises(self.refusal, match=message) as refused:
            self.bring_up(url)
        assert ":chorale@" not in str(refused.value), "the message does not contain the password"
        with engine.connect() as connection:
            assert self.schema.revision(connection) == other
