"""Which databases can hold an audit trail."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from audit.database import database_url, open_database
from models.errors import WrongDeclaration


def test_another_kind_of_database_is_refused_with_the_choices() -> None:
    with pytest.raises(WrongDeclaration, match="unknown kind 'mysql'; there are: sqlite, postgresql"):
        open_database("mysql://localhost/audit")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(WrongDeclaration, match="needs a file"):
        open_database(url)


def test_every_spelling_of_postgresql_uses_psycopg() -> None:
    for url in ("postgresql://host/audit", "postgresql+psycopg2://host/audit"):
        assert database_url(url).drivername == "postgresql+psycopg"


def test_a_file_that_must_exist_is_not_created(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'audit.db'}", must_exist=True)
    with pytest.raises(OperationalError, match="is gone"), engine.connect():
        pass
    assert not list(tmp_path.iterdir())


def test_a_deleted_file_is_not_written_any_more(tmp_path: Path) -> None:
    """Rows written to the deleted file would be lost, so the engine reconnects."""
    file = tmp_path / "audit.db"
    maker, engine = open_database(f"sqlite:///{file}"), open_database(f"sqlite:///{file}", must_exist=True)
    with maker.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE kept (number INTEGER)")
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO kept VALUES (1)")
    file.rename(tmp_path / "away")

    with pytest.raises(OperationalError, match="is gone"), engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO kept VALUES (2)")

    (tmp_path / "away").rename(file)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO kept VALUES (3)")
        assert connection.exec_driver_sql("SELECT number FROM kept").scalars().all() == [1, 3]
