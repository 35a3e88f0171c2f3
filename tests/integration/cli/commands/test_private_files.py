"""What a command makes is its user's alone, whichever command is the first, and `doctor` finds what others may read."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from cli.doctor.environment import private
from cli.installation import Installation
from config.settings import Settings
from tests.support.command_line import Run


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "note.md").write_text("# Roses\n\nRoses are cut in spring.\n")
    (folder / "questions.jsonl").write_text('{"text": "who is leaving?"}\n')
    return folder


def modes(folder: Path) -> dict[str, str]:
    """The paths that users other than the owner may use."""
    every = {path: path.lstat().st_mode for path in (folder, *folder.rglob("*"))}
    return {str(path): oct(stat.S_IMODE(mode)) for path, mode in every.items() if mode & 0o077}


FIRST = {
    "jobs": ("jobs", "submit", "{notes}/questions.jsonl"),
    "keys": ("keys", "create", "--namespace", "law", "--scope", "search:run"),
}


@pytest.mark.parametrize("arguments", FIRST.values(), ids=FIRST)
def test_the_command_that_makes_the_home_makes_it_private(
    arguments: tuple[str, ...], alone: Run, notes: Path, tmp_path: Path
) -> None:
    called = alone(*(one.format(notes=notes) for one in arguments))
    assert called.returncode == 0, called.stderr
    assert any((tmp_path / "home").iterdir())
    assert not modes(tmp_path / "home")


@pytest.mark.slow
def test_a_backup_and_what_is_restored_from_it_are_private(alone: Run, notes: Path, tmp_path: Path) -> None:
    assert alone("index", str(notes / "note.md")).returncode == 0
    assert not modes(tmp_path / "home")
    assert alone("backup", str(tmp_path / "backups" / "one")).returncode == 0
    new = {"CHORALE_HOME": str(tmp_path / "new")}
    assert alone("restore", str(tmp_path / "backups" / "one"), **new).returncode == 0
    assert not modes(tmp_path / "backups")
    assert not modes(tmp_path / "new")


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return Installation(Settings(home=home), None)


@pytest.mark.parametrize(
    ("mode", "mend"),
    [(0o700, ""), (0o755, "chmod -R go= "), (0o750, "chmod -R go= "), (0o2770, ""), (0o2775, "chmod -R o= ")],
)
def test_the_doctor_finds_a_home_that_others_may_use(
    installation: Installation, mode: int, mend: str
) -> None:
    """The setgid bit says that a group shares the folder on purpose."""
    home = installation.settings.home
    home.chmod(mode)
    assert [finding.mend for finding in private(installation)] == ([f"{mend}{home}"] if mend else [])


def test_the_doctor_finds_a_home_of_another_user(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = installation.settings.home.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    what = [finding.what for finding in private(installation)]
    assert len(what) == (0 if owner == 0 else 1)  # root may do everything anyway
    assert all(f"belongs to the user {owner}" in text for text in what)


@pytest.mark.parametrize(("mode", "mends"), [(0o777, 1), (0o1777, 0), (0o755, 0)])
def test_the_doctor_finds_a_home_that_others_may_replace(tmp_path: Path, mode: int, mends: int) -> None:
    """Where the sticky bit is set, as in /tmp, only the owner may rename a folder."""
    above = tmp_path / "shared"
    (above / "home").mkdir(parents=True, mode=0o700)
    above.chmod(mode)
    installation = Installation(Settings(home=above / "home"), None)
    assert [finding.mend for finding in private(installation)] == [f"chmod o-w {above}"] * mends


def test_the_doctor_finds_a_database_outside_of_the_home_that_others_may_read(
    installation: Installation, tmp_path: Path
) -> None:
    file = tmp_path / "elsewhere.db"
    file.touch()
    file.chmod(0o644)
    elsewhere = Settings(home=installation.settings.home, audit_url=f"sqlite:///{file}")
    (finding,) = private(replace(installation, settings=elsewhere))
    assert finding.what == f"other users of this machine may use {file} (its mode is 0644)"
    file.chmod(0o600)
    assert not list(private(replace(installation, settings=elsewhere)))
