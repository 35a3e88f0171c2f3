"""The schema is brought up to date once, whoever starts when and dies where."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text

import audit.migrations
from audit.database import open_database
from audit.queries import count
from audit.schema import HEAD, VERSION_TABLE, SchemaBusy, SchemaTooNew, upgrade
from models.audit_tables import AuditTable
from tests.integration.audit.process import line_of, started


def differences(engine: Engine) -> list[object]:
    """What Alembic would have to change to come from the database to the declared tables."""
    with engine.connect() as connection:
        options = {
            "include_name": lambda name, kind, _: kind != "table" or name != VERSION_TABLE,
            "compare_server_default": True,
        }
        return list(
            compare_metadata(MigrationContext.configure(connection, opts=options), AuditTable.metadata)
        )


def test_the_migrations_lead_exactly_to_the_declared_tables(engine: Engine) -> None:
    assert differences(engine) == []


def test_a_column_too_many_would_be_seen(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE chorale_hit ADD COLUMN colour VARCHAR"))
    assert len(differences(engine)) == 1


def test_head_is_the_newest_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(audit.migrations.__file__).parent))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_processes_that_start_at_once_all_find_the_newest_schema(empty_url: str) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(started("migrate", empty_url)) for _ in range(2)]
        assert [line_of(process) for process in processes] == ["ready"] * 2
        for process in processes:
            process.communicate("go\n", timeout=30)
        assert [process.returncode for process in processes] == [0, 0]
    engine = open_database(empty_url)
    assert differences(engine) == []
    engine.dispose()


def test_killed_in_the_middle_it_leaves_the_old_schema_and_the_next_one_completes_it(empty_url: str) -> None:
    with started("migrate_and_die", empty_url, "chorale_branch") as process:
        assert process.wait(30) == -signal.SIGKILL
    engine = open_database(empty_url)
    assert inspect(engine).get_table_names() == []
    upgrade(empty_url)
    assert differences(engine) == []
    engine.dispose()


def test_a_second_upgrade_changes_nothing(engine: Engine, audit_url: str) -> None:
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO chorale_request SELECT * FROM chorale_request"))
    upgrade(audit_url)
    assert differences(engine) == []
    assert count(engine) == 0


def test_a_newer_schema_is_refused_with_what_to_do(engine: Engine, audit_url: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(SchemaTooNew, match=r"has schema 9999.*start the newer version") as refused:
        upgrade(audit_url)
    assert ":chorale@" not in str(refused.value), "the password stays out of the message"
    with engine.connect() as connection:
        assert connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")) == "9999"


def test_waiting_for_another_process_is_bounded(audit_url: str) -> None:
    with started("hold_schema", audit_url) as process:
        assert line_of(process) == "locked"
        with pytest.raises(SchemaBusy, match="another process"):
            upgrade(audit_url, wait_s=0.2)
    upgrade(audit_url, wait_s=10)
