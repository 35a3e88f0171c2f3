"""Allows one `chorale up` for each home: two Redis servers would destroy the append-only file that they share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import ServiceError, WrongHome


@contextmanager
def hold_home(home: Path) -> Iterator[None]:
    """Hold the lock of the home; the kernel releases it when the process ends.

    Raises ServiceError with the id of the process that holds it, WrongHome where the folder cannot be used.
    """
    from filelock import FileLock, Timeout  # its import takes 27 ms

    path = home / "up.lock"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(path).acquire(0)
    except Timeout:
        raise ServiceError(
            f"chorale is already running on {home} (process {path.read_text().strip() or 'unknown'}); "
            "stop it, or set CHORALE_HOME to another folder."
        ) from None
    except OSError as error:
        why = "it is no folder" if isinstance(error, FileExistsError) else error.strerror
        raise WrongHome(f"CHORALE_HOME={home} cannot be used ({why}): set it to a folder of yours") from error
    with lock:
        path.write_text(str(os.getpid()))
        yield
