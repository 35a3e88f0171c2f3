"""The files that a path stands for, in an order that depends only on their names.

No symbolic link leads out of the given folder, also none that is made at that moment."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from ingest.document_ids import MAX_ID_BYTES
from ingest.raw_documents import Unreadable
from models.not_indexed import NotIndexed

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
            raise Unreadable(NotIndexed.NOT_OPENED, "neither a file nor a folder")
        return descriptor

    def target(self, inside: str) -> tuple[str, int]:
        """The path inside the folder to which a path leads through links, and the type of what is there."""
        real = os.path.realpath(f"{self._real}/{inside}")
        below = os.path.relpath(real, self._real)
        if below == os.pardir or below.startswith(f"{os.pardir}/"):
            raise Unreadable(NotIndexed.NOT_OPENED, "a link that leads out of the folder")
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


MAX_PATH_BYTES = 3 * MAX_ID_BYTES
"""A folder with a longer path is left out: in every form of Unicode its files' ids would be too long."""

_A_LINK = "a link, which is followed only with --follow-links"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or a folder or file that is not opened."""

    path: Path
    """For reports."""
    inside: str
    """Path inside the given folder, with forward slashes; the name of a given file."""
    open: Callable[[], int] | None = None
    """Returns a descriptor of the file, for the caller to close; raises OSError, Unreadable.  None for what is not opened."""
    reason: NotIndexed = NotIndexed.NOT_OPENED
    """Why it is not opened; `why_not` says it in words."""
    why_not: str = ""


def find(start: Path, *, follows_links: bool = False) -> Iterator[Entry]:
    """The given file, or the files below the given folder: sorted by name, folder by folder, then links.

    Hidden files and folders are not opened.

    A link is followed only with `follows_links`, and only if it leads to what lies in the given folder.  A given path
    that is a link itself must stay in the folder that contains it: a shell's `*` gives the links that others have made.
    Folders are not opened twice through links.
    """
    path = start if start.name not in ("", "..") else start.resolve()
    try:
        if path.is_symlink() and not follows_links:
            raise Unreadable(NotIndexed.NOT_OPENED, f"{_A_LINK}; give the path that it leads to")
        with RootFolder(path.parent, follows_links=follows_links) as above:
            if path.is_dir():
                with above.folder(path.name) as root:
                    yield from _walk(root, start, follows_links=follows_links)
            else:
                yield Entry(start, path.name, partial(above.file, path.name))
    except (OSError, Unreadable) as error:
        yield _not_opened(start, "" if path.is_dir() else path.name, error)


def _walk(root: RootFolder, start: Path, *, follows_links: bool) -> Iterator[Entry]:
    # Links come last, so that each folder is read under its own name where it has one.
    waiting, links, walked = [("", stat.S_IFDIR)], deque[tuple[str, int]](), set[str]()
    while waiting or links:
        inside, kind = waiting.pop() if waiting else links.popleft()
        path, target = start / inside, inside
        try:
            if kind == stat.S_IFLNK and not follows_links:
                yield Entry(path, inside, reason=NotIndexed.LINK, why_not=_A_LINK)
                continue
            if follows_links:
                target, kind = root.target(inside)
                if target in walked:
                    continue
            if kind == stat.S_IFDIR:
                if len(os.fsencode(inside)) > MAX_PATH_BYTES:
                    raise Unreadable(NotIndexed.WRONG_ID, f"its path has more than {MAX_PATH_BYTES:,} bytes")
                walked.add(target)
                below = list[tuple[str, int]]()
                for name, kind in root.names(inside):
                    way = f"{inside}/{name}" if inside else name
                    if name.startswith("."):
                        yield Entry(
                            start / way, way, reason=NotIndexed.HIDDEN, why_not=NotIndexed.HIDDEN.meaning
                        )
                    else:
                        below.append((way, kind))
                waiting += [entry for entry in reversed(below) if entry[1] != stat.S_IFLNK]
                links += [entry for entry in below if entry[1] == stat.S_IFLNK]
            elif kind == stat.S_IFREG:
                yield Entry(path, inside, partial(root.file, inside))
            else:
                raise Unreadable(NotIndexed.NOT_OPENED, "neither a file nor a folder")
        except (OSError, Unreadable) as error:
            yield _not_opened(path, inside, error)


def _not_opened(path: Path, inside: str, error: OSError | Unreadable) -> Entry:
    if isinstance(error, Unreadable):
        return Entry(path, inside, reason=error.reason, why_not=str(error))
    return Entry(path, inside, why_not=f"cannot be opened: {error.strerror or error}")
