"""The format of an installation's folder, in `<home>/format`: what another version's program left there is not guessed at."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from models.errors import WrongHome

HOME_FORMAT = 1
"""Raised whenever what lies in the folder, or where, changes in a way that an older program cannot use."""

MIGRATIONS: Mapping[int, Callable[[Path], None]] = {}
"""What makes of a folder of this format one of the next; each may be killed in the middle and repeated."""


def check_home(
    home: Path, *, newest: int = HOME_FORMAT, migrations: Mapping[int, Callable[[Path], None]] = MIGRATIONS
) -> None:
    """Bring the folder to the newest format; one that is not there is left so, one without a mark is of format 1.

    Raises WrongHome for what a newer program wrote, and for a format that nothing leads on from.
    """
    if not home.is_dir():
        return
    found = home_format(home)
    if found > newest:
        raise WrongHome(
            f"the folder {home} has format {found}, and this program knows none after {newest}: start the newer "
            "program that wrote it, or set CHORALE_HOME to another folder"
        )
    while found < newest:
        step = migrations.get(found)
        if step is None:
            raise WrongHome(
                f"the folder {home} has format {found}, and this program begins at {min([newest, *migrations])}: set "
                "CHORALE_HOME to another folder and index into it with `chorale index PATH…`"
            )
        step(home)
        found += 1
        mark_home(home, found)
    if not _mark_of(home).exists():
        # A folder that may only be read is used as it is.
        with suppress(OSError):
            mark_home(home, found)


def home_format(home: Path) -> int:
    """Raises WrongHome where the mark is no number."""
    try:
        return int(_mark_of(home).read_text())
    except FileNotFoundError:
        return 1
    except (OSError, ValueError) as error:
        raise WrongHome(
            f"{_mark_of(home)} says no format: {error}; restore the folder from a backup"
        ) from None


def _mark_of(home: Path) -> Path:
    return home / "format"


def mark_home(home: Path, number: int) -> None:
    """Say that the folder has this format; workers that start together never read half of it."""
    new = home / f"format.{os.getpid()}"
    new.write_text(f"{number}\n")
    new.replace(_mark_of(home))
