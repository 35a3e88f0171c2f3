"""Opens what lies below a folder.  No symbolic link leads out of the folder, also none that is made at that moment."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Self

from ingest.raw_documents import Unreadable
from models.left_out import LeftOut

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER = _OPEN | os.O_DIRECTORY
# Where a folder is only passed through, Linux asks for no permission to list it.
_WAY = _FOLDER | getattr(os, "O_PATH", 0)
# With O_NONBLOCK, opening a pipe that has taken a file's place does not wait.
_FILE = _OPEN | os.O_NONBLOCK | os.O_NOCTTY


class RootFolder:
    """A folder that stays open.  Paths inside it have forward slashes; "" is the folder itself.

    Every method raises OSError, and Unreadable for what could be opened but must not be.
    """

    def __init__(self, path: Path, *, follows_links: bool, descriptor: int | None = None) -> None:
        """Links in `path` itself are followed.

        With `follows_links`, links to what lies inside the folder are followed; all others are errors.
        """
        self._real = os.path.realpath(path)
        self._follows_links = follows_links
        self._descriptor = os.open(self._real, _WAY) if descriptor is None else descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def folder(self, inside: str) -> RootFolder:
        """A folder as a root of its own."""
        below, _ = self.target(inside) if self._follows_links else (inside, 0)
        path = Path(self._real, below)
        return RootFolder(path, follows_links=self._follows_links, descriptor=self._open(inside, _WAY))

    def names(self, inside: str) -> list[tuple[str, int]]:
        """The sorted names in a folder, each with its type (`stat.S_IFMT`), 0 for an unusual one."""
        descriptor = self._open(inside, _FOLDER)
        try:
            with os.scandir(descriptor) as entries:
                return sorted((entry.name, _type(entry)) for entry in entries)
        finally:
            os.close(descriptor)

    def file(self, inside: str) -> int:
        """A descriptor of an ordinary file, for the caller to close."""
        descriptor = self._open(inside, _FILE)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Unreadable(LeftOut.NOT_OPENED, "neither a file nor a folder")
        return descriptor

    def target(self, inside: str) -> tuple[str, int]:
        """The path inside the folder to which a path leads through links, and the type of what is there."""
        real = os.path.realpath(f"{self._real}/{inside}")
        below = os.path.relpath(real, self._real)
        if below == os.pardir or below.startswith(f"{os.pardir}/"):
            raise Unreadable(LeftOut.NOT_OPENED, "a link that leads out of the folder")
        return "" if below == os.curdir else below, stat.S_IFMT(os.lstat(real).st_mode)

    def _open(self, inside: str, flags: int) -> int:
        """Opens each part of the path inside the opened part before it, so that no part can become a link meanwhile."""
        if self._follows_links:
            inside, _ = self.target(inside)
        *folders, name = inside.split("/") if inside else ["."]
        at = os.dup(self._descriptor)
        try:
            for folder in folders:
                above, at = at, os.open(folder, _WAY, dir_fd=at)
                os.close(above)
            return os.open(name, flags, dir_fd=at)
        finally:
            os.close(at)


def _type(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else 0
