"""Which databases can hold an audit trail."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from models.errors import WrongDeclaration
from records.database import database_url, open_database


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://localhost/audit", "unknown kind 'mysql'; there are: sqlite, postgresql"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
    ],
)
def test_another_kind_of_database_or_one_in_memory_is_refused(url: str, says: str) -> None:
    with pytest.raises(WrongDeclaration, match=says):
        open_database(url)
    for spelling in ("postgresql://host/audit", "postgresql+psycopg2://host/audit"):
        assert database_url(spelling).drivername == "postgresql+psycopg"


def test_a_file_that_must_exist_is_not_created_and_a_deleted_one_not_written_any_more(tmp_path: Path) -> None:
    """Rows written to the deleted file would be lost, so the engine reconnects."""
    file = tmp_path / "audit.db"
    maker, engine = open_database(f"sqlite:///{file}"), open_database(f"sqlite:///{file}", must_exist=True)
    with pytest.raises(OperationalError, match="is gone"), engine.connect():
        pass
    assert not list(tmp_path.iterdir())
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
