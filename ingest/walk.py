"""The files below a folder, in an order that depends only on their names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Found:
    """A file, or a folder or file that cannot be opened."""

    path: Path
    inside: str
    """Path inside the folder, with forward slashes."""
    why_not: str | None = None
    """Why it cannot be opened; None for a file."""


def walk(root: Path) -> Iterator[Found]:
    """Files sorted by name, folder by folder; names that begin with a dot are left out.

    A symbolic link to a file is read.  A link to a folder is followed unless the folder contains the link or was
    already reached through another link.
    """
    yield from _walk(root, "", (os.path.realpath(root),), set())


def _walk(folder: Path, inside: str, above: tuple[str, ...], followed: set[str]) -> Iterator[Found]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
    except OSError as error:
        yield Found(folder, inside, f"cannot be opened: {error.strerror or error}")
        return
    for name in names:
        if name.startswith("."):
            continue
        path, below = folder / name, f"{inside}/{name}" if inside else name
        try:
            mode = path.stat().st_mode
        except OSError as error:
            # For example a link to itself, or to nothing.
            yield Found(path, below, f"cannot be opened: {error.strerror or error}")
            continue
        if stat.S_ISREG(mode):
            yield Found(path, below)
        elif stat.S_ISDIR(mode):
            real = os.path.realpath(path)
            if path.is_symlink():
                if real in above or real in followed:
                    continue
                followed.add(real)
            yield from _walk(path, below, (*above, real), followed)
        else:
            yield Found(path, below, "neither a file nor a folder")
