"""The format of an installation's folder: older formats are migrated, or refused with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.home_format import HOME_FORMAT, MIGRATIONS, check_home, home_format
from models.errors import BadIndex, WrongHome
from search.embedded import connections
from search.embedded.store import EmbeddedStore


def test_a_missing_folder_is_not_created(tmp_path: Path) -> None:
    check_home(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_folder_without_a_mark_has_format_1_and_gets_the_current_mark(tmp_path: Path) -> None:
    assert home_format(tmp_path) == 1
    check_home(tmp_path)
    assert (tmp_path / "format").read_text() == f"{HOME_FORMAT}\n"


def test_an_older_folder_is_migrated_step_by_step(tmp_path: Path) -> None:
    steps = {1: lambda home: (home / "one").touch(), 2: lambda home: (home / "two").touch()}
    check_home(tmp_path, newest=3, migrations=steps)
    assert {path.name for path in tmp_path.iterdir()} == {"format", "one", "two"}
    assert home_format(tmp_path) == 3


def test_a_failed_migration_is_repeated_and_those_before_it_are_not(tmp_path: Path) -> None:
    def fails(home: Path) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        check_home(tmp_path, newest=3, migrations={1: lambda home: None, 2: fails})
    assert home_format(tmp_path) == 2
    check_home(tmp_path, newest=3, migrations={2: lambda home: (home / "two").touch()})
    assert (tmp_path / "two").exists()


def test_a_folder_too_old_to_migrate_is_refused_with_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(
        WrongHome, match=r"has format 1, but the oldest that this program knows is 2: .*`chorale index PATH…`"
    ):
        check_home(tmp_path, newest=3, migrations={2: lambda home: None})
    assert list(tmp_path.iterdir()) == []


def test_a_newer_folder_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("9\n")
    with pytest.raises(
        WrongHome, match=f"has format 9, but the newest that this program knows is {HOME_FORMAT}"
    ):
        check_home(tmp_path)
    assert (tmp_path / "format").read_text() == "9\n"


def test_a_mark_that_is_not_a_number_is_reported_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("one")
    with pytest.raises(WrongHome, match="contains no format"):
        check_home(tmp_path)


def test_there_is_a_migration_from_every_format_of_a_release() -> None:
    assert set(MIGRATIONS) == set(range(1, HOME_FORMAT))


@pytest.mark.parametrize(
    ("present", "said"), [(2, "move the folder away and index again"), (0, "use the newer program")]
)
def test_a_corpus_of_another_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: int, said: str
) -> None:
    EmbeddedStore(tmp_path).namespaces()
    monkeypatch.setattr(connections, "CORPUS_FORMAT", present)
    with pytest.raises(BadIndex, match=said):
        EmbeddedStore(tmp_path).namespaces()
