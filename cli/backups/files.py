"""Backups: their content, and copying the files of an installation into one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from chorale_client.errors import safe_repr

from cli.installation import Installation
from config.home import HOME_FORMAT
from models.errors import ServiceError
from records.database import copy_trail, trail_file
from search.documents.snapshot import copy_documents

MANIFEST = "manifest.json"
DOCUMENTS, TRAIL = "documents.db", "audit.db"
_MOST_MANIFEST_BYTES = 100_000_000
"""A manifest of half a million namespaces has so many bytes."""


@dataclass(frozen=True, slots=True)
class Backup:
    """The content of `manifest.json`."""

    format: int
    """Format of the installation's folder (`config.home`)."""
    program: str
    """Version of the program that wrote it."""
    created: str
    """ISO 8601."""
    namespaces: Sequence[Mapping[str, Any]]
    """`{name, documents, passages, generation}` for each namespace."""
    files: Mapping[str, str]
    """SHA-256 of each file, by its path inside the folder."""

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(json.dumps({"v": 1, **asdict(self)}, indent=1) + "\n")


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a backup but the manifest.  Other files of the folder are not read."""
    digest_by_name = {}
    for name in (DOCUMENTS, TRAIL):
        if (folder / name).is_file():
            with (folder / name).open("rb") as opened:
                digest_by_name[name] = hashlib.file_digest(opened, "sha256").hexdigest()
    return digest_by_name


def read_backup(folder: Path) -> Backup:
    """The manifest, once the checksum of every file is compared; raises ServiceError."""
    # Reading a pipe or a link to /dev/zero would not end.
    if not (folder / MANIFEST).is_file():
        raise ServiceError(f"{folder} is no backup: it has no {MANIFEST}")
    if (size := (folder / MANIFEST).stat().st_size) > _MOST_MANIFEST_BYTES:
        raise ServiceError(
            f"{folder} is no backup: {MANIFEST} has {size:,} bytes, of at most {_MOST_MANIFEST_BYTES:,}"
        )
    try:
        content = json.loads((folder / MANIFEST).read_text())
        backup = Backup(**{name: content[name] for name in Backup.__dataclass_fields__})
        newest = int(backup.format)
        _ = sum(int(state["documents"]) for state in backup.namespaces)
        if not isinstance(backup.files, dict):
            raise TypeError("`files` is not an object")
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ServiceError(f"{folder / MANIFEST} cannot be read: {type(error).__name__}: {error}") from None
    if newest > HOME_FORMAT:
        raise ServiceError(
            f"{folder} has format {newest}, but the newest that this program knows is {HOME_FORMAT}: restore it with "
            f"version {backup.program} or newer"
        )
    if foreign := sorted({*backup.files} - {DOCUMENTS, TRAIL}):
        raise ServiceError(
            f"{folder} is no backup: {MANIFEST} names {safe_repr(foreign[0])}; a backup has {DOCUMENTS}, {TRAIL}"
        )
    if linked := [name for name in backup.files if (folder / name).is_symlink()]:
        raise ServiceError(
            f"{folder} is no backup: {linked[0]} is a link; copy the file itself into the folder"
        )
    present = digests(folder)
    wrong = sorted(name for name, digest in backup.files.items() if present.get(name) != digest)
    if wrong:
        raise ServiceError(
            f"{folder} is damaged: {', '.join(wrong)} is missing or was changed; use another backup"
        )
    for name in backup.files:
        _check_schema(folder / name)
    return backup


def _check_schema(file: Path) -> None:
    """Raises ServiceError for what SQLite would run whenever Chorale reads or writes its tables."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as opened:
            own = opened.execute(_RUNS_BY_ITSELF).fetchone()
    except sqlite3.Error as error:
        raise ServiceError(f"{file} is no database: {error}; use another backup") from None
    if own is not None:
        raise ServiceError(
            f"{file} has the {own[0]} {safe_repr(own[1])}, which Chorale does not make: use another backup"
        )


_RUNS_BY_ITSELF = (
    "SELECT type, name FROM sqlite_schema WHERE type = 'trigger' OR (type = 'view' AND name LIKE 'chorale%')"
)


@dataclass(frozen=True, slots=True)
class DataFiles:
    """What of an installation is in files of its own, and what is elsewhere."""

    documents: Path | None
    """The documents' database; None if there is none, or if PostgreSQL has it."""
    trail: Path | None
    """The database of the audit trail; None if PostgreSQL has it."""
    servers: Mapping[str, str]
    """The kinds of the stores that servers hold, by their names."""
    in_postgresql: Sequence[str]

    @property
    def elsewhere(self) -> list[str]:
        """One sentence for each kind of data that `chorale backup` does not copy."""
        sentences = []
        if self.in_postgresql:
            named = " and ".join(self.in_postgresql)
            sentences.append(f"{named}, in PostgreSQL: its own tools back that up (pg_dump)")
        if self.servers:
            named = ", ".join(f"{name} ({kind})" for name, kind in self.servers.items())
            sentences.append(f"{named}: built anew from the documents by `chorale verify`")
        return sentences


def data_files(installation: Installation) -> DataFiles:
    resources, stores = installation.resources, installation.pipeline.stores
    file = resources.documents.file if resources.written_stores else None
    documents = None if file is None else file.path
    trail = trail_file(installation.settings.audit_database_url)
    in_postgresql = ["the documents"] if resources.written_stores and documents is None else []
    if trail is None:
        in_postgresql.append("the audit trail")
    kinds = {name: stores[name].kind for name in resources.written_stores}
    servers = {name: kind for name, kind in kinds.items() if kind != "embedded"}
    # Both may be in one file, which is copied once.
    return DataFiles(documents, None if trail == documents else trail, servers, in_postgresql)


def back_up(installation: Installation, target: Path, *, force: bool) -> Backup:
    """Write a whole backup into `target`, or nothing; everything may run meanwhile.

    Raises ServiceError, with BadIndex where a database is damaged.
    """
    data = data_files(installation)
    _check_target(target, force=force)
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        draft.mkdir(mode=0o700, parents=True)
        states = [] if data.documents is None else copy_documents(data.documents, draft / DOCUMENTS)
        if data.trail is not None and data.trail.exists():
            copy_trail(data.trail, draft / TRAIL)
        made = Backup(
            format=HOME_FORMAT,
            program=version("chorale-client"),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            namespaces=[
                {name: value for name, value in asdict(state).items() if name != "manifest"}
                for state in states
            ],
            files=digests(draft),
        )
        made.write(draft)
        if target.exists():
            shutil.rmtree(target)
        draft.replace(target)
    except OSError as error:
        raise ServiceError(f"no backup was written to {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return made


def _check_target(target: Path, *, force: bool) -> None:
    if not target.exists():
        return
    if not force:
        raise ServiceError(f"{target} is there already: name another folder, or add --force to replace it")
    if not (target / MANIFEST).is_file():
        raise ServiceError(f"{target} is no backup, and only a backup is replaced: name another folder")
