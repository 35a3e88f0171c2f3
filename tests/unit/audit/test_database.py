"""Which databases hold an audit trail."""

from __future__ import annotations

import pytest

from audit.database import database_url, open_database
from models.errors import WrongDeclaration


def test_another_kind_of_database_is_refused_with_the_choices() -> None:
    with pytest.raises(WrongDeclaration, match="no kind 'mysql'; there are: sqlite, postgresql"):
        open_database("mysql://localhost/audit")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(WrongDeclaration, match="needs a file"):
        open_database(url)


def test_postgresql_is_spoken_to_with_psycopg_however_it_is_named() -> None:
    for url in ("postgresql://host/audit", "postgresql+psycopg2://host/audit"):
        assert database_url(url).drivername == "postgresql+psycopg"
