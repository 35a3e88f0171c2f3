"""The format of an installation's folder, stored in `<home>/format`; another format is refused."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from models.errors import WrongHome

HOME_FORMAT = 1
"""Raised whenever the folder changes in a way that an older program cannot use; old folders then need a migration."""


def check_home(home: Path) -> None:
    """Raise WrongHome if a newer program wrote the folder.

    A missing folder is not created; a folder without a mark has format 1 and gets its mark.
    """
    if not home.is_dir():
        return
    found = home_format(home)
    if found > HOME_FORMAT:
        raise WrongHome(
            f"the folder {home} has format {found}, but the newest that this program knows is {HOME_FORMAT}: start the "
            "newer program that wrote it, or set CHORALE_HOME to another folder"
        )
    if not _mark_of(home).exists():
        # A read-only folder is used as it is.
        with suppress(OSError):
            mark_home(home, found)


def home_format(home: Path) -> int:
    """The folder's format; raises WrongHome if the mark is not a number."""
    try:
        return int(_mark_of(home).read_text())
    except FileNotFoundError:
        return 1
    except (OSError, ValueError) as error:
        raise WrongHome(
            f"{_mark_of(home)} contains no format: {error}; restore the folder from a backup"
        ) from None


def _mark_of(home: Path) -> Path:
    return home / "format"


def mark_home(home: Path, number: int) -> None:
    """Write the folder's format atomically, since workers may read it at the same time."""
    new = home / f"format.{os.getpid()}"
    new.write_text(f"{number}\n")
    new.replace(_mark_of(home))
