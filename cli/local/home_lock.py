"""Allows one `chorale up` for each home: two Redis servers would destroy the append-only file that they share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from models.errors import ServiceError, WrongHome


@contextmanager
def hold_home(home: Path) -> Iterator[None]:
    """Hold the lock of the home; the kernel releases it when the process ends.

    Raises ServiceError with the id of the process that holds it, WrongHome where the folder cannot be used.
    """
    with _opened(home) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise ServiceError(
                f"chorale is already running on {home} (process {holder}); "
                "stop it, or set CHORALE_HOME to another folder."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _opened(home: Path) -> TextIO:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return (home / "up.lock").open("a+")
    except OSError as error:
        why = "it is no folder" if isinstance(error, FileExistsError) else error.strerror
        raise WrongHome(f"CHORALE_HOME={home} cannot be used ({why}): set it to a folder of yours") from error
