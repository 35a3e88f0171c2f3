"""The format of an installation's folder, and the key in it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from config.home import HOME_FORMAT, check_home, home_format
from config.secret_keys import audit_key
from config.settings import Settings
from models.errors import WrongHome


def test_a_folder_without_a_mark_has_format_1_and_an_older_folder_gets_the_current_mark(
    tmp_path: Path,
) -> None:
    check_home(tmp_path / "home")
    assert not (tmp_path / "home").exists(), "a missing folder is not created"
    assert home_format(tmp_path) == 1
    for mark in (None, "1\n"):
        if mark is not None:
            (tmp_path / "format").write_text(mark)
        check_home(tmp_path)
        assert (tmp_path / "format").read_text() == f"{HOME_FORMAT}\n"


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ("9\n", f"has format 9, but the newest that this program knows is {HOME_FORMAT}"),
        ("one", "contains no format"),
    ],
)
def test_a_newer_folder_or_an_odd_mark_is_refused_and_stays(tmp_path: Path, mark: str, says: str) -> None:
    (tmp_path / "format").write_text(mark)
    with pytest.raises(WrongHome, match=says):
        check_home(tmp_path)
    assert (tmp_path / "format").read_text() == mark


def test_the_first_call_makes_the_key_of_the_home_for_its_owner_alone(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(audit_key, [settings] * 8))
    (key,) = keys
    assert len(key) == 64
    assert audit_key(Settings(home=tmp_path / "other")) != key
    (file,) = settings.home.iterdir()
    assert (file.stat().st_mode & 0o777, settings.home.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_configured_key_is_used_and_no_file_is_made(tmp_path: Path) -> None:
    assert audit_key(Settings(home=tmp_path, audit_hash_key="k" * 32)) == b"k" * 32
    assert not list(tmp_path.iterdir())
