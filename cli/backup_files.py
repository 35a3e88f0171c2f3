"""Backups: their content, and copying the files of an installation into one and back."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from chorale_client.errors import safe_repr
from chorale_client.keys import GENERATION
from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError

from cli.installation import Installation
from cli.local.home_lock import hold_home
from config.home import HOME_FORMAT, check_home, mark_home
from models.errors import BadIndex, ServiceError, StoreUnavailable
from monitoring.heartbeats import read_heartbeats
from records.database import copy_trail, open_database, trail_file, upgrade
from records.rules.store import RuleStore, copy_rules
from search.documents.document_table import DocumentTable
from search.documents.snapshot import copy_documents, documents_from, generations_in

MANIFEST = "manifest.json"
DOCUMENTS, TRAIL = "documents.db", "audit.db"


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

    @property
    def documents(self) -> str | None:
        """The file with the documents."""
        return DOCUMENTS if DOCUMENTS in self.files else None

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(json.dumps({"v": 1, **asdict(self)}, indent=1) + "\n")


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in the folder but the manifest."""
    digest_by_name = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name != MANIFEST:
            with file.open("rb") as opened:
                name = str(file.relative_to(folder))
                digest_by_name[name] = hashlib.file_digest(opened, "sha256").hexdigest()
    return digest_by_name


def read_backup(folder: Path) -> Backup:
    """The manifest, once the checksum of every file is compared; raises ServiceError."""
    try:
        content = json.loads((folder / MANIFEST).read_text())
        backup = Backup(**{name: content[name] for name in Backup.__dataclass_fields__})
        newest = int(backup.format)
        if not isinstance(backup.files, dict):
            raise TypeError("`files` is not an object")
    except FileNotFoundError:
        raise ServiceError(f"{folder} is no backup: it has no {MANIFEST}") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
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
class KeptFiles:
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


def kept_files(installation: Installation) -> KeptFiles:
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
    return KeptFiles(documents, None if trail == documents else trail, servers, in_postgresql)


def back_up(installation: Installation, target: Path, *, force: bool) -> Backup:
    """Write a whole backup into `target`, or nothing; everything may run meanwhile.

    Raises ServiceError, with BadIndex where a database is damaged.
    """
    kept = kept_files(installation)
    _check_target(target, force=force)
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        draft.mkdir(mode=0o700, parents=True)
        states = [] if kept.documents is None else copy_documents(kept.documents, draft / DOCUMENTS)
        if kept.trail is not None and kept.trail.exists():
            copy_trail(kept.trail, draft / TRAIL)
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


def put_back(installation: Installation, folder: Path, *, force: bool) -> Backup:
    """Put a backup in place of the data in the home, once all of it is ready.

    Raises ServiceError, with WriterBusy and BadIndex.
    """
    backup, kept, home = read_backup(folder), kept_files(installation), installation.settings.home
    if (backup.documents is None) != (kept.documents is None):
        have = "no documents in a file" if backup.documents is None else "documents"
        raise ServiceError(
            f"{folder} has {have}, unlike the installation here: set CHORALE_PIPELINE_FILE and CHORALE_DOCUMENTS_URL "
            "to what was backed up"
        )
    with hold_home(home), _alone(installation, kept):
        trail = kept.trail if TRAIL in backup.files else None
        known = _known_generations(installation, kept, folder, backup)
        existing = [str(path) for path in (kept.documents, trail) if path is not None and path.exists()]
        if existing and not force:
            raise ServiceError(f"{', '.join(existing)} would be replaced: add --force, or set CHORALE_HOME")
        replacement = _Replacement()
        try:
            made: dict[str, int] = {}
            if kept.documents is not None and backup.documents is not None:
                # The generation must be higher than each one under which an answer was cached.  Redis, which knows the newest,
                # may be away.  No namespace has had as many batches as there were seconds since 1970.
                now = int(time.time())
                least = {name: max(generation + 1, now) for name, generation in known.items()}
                new = replacement.of(kept.documents)
                made = documents_from(folder / backup.documents, new, generations=least, servers=kept.servers)
            if trail is not None:
                shutil.copyfile(folder / TRAIL, replacement.of(trail))
            replacement.finish()
        finally:
            replacement.abandon()
        mark_home(home, HOME_FORMAT)
        check_home(home)
        if trail is not None:
            _tell_rules(installation)
    _tell(installation, _with_indexes(installation, kept, made), gone=known.keys() - made.keys())
    return backup


def _with_indexes(installation: Installation, kept: KeptFiles, made: dict[str, int]) -> dict[str, int]:
    """The generations of the namespaces, with their indexes in files; `chorale verify` builds those of servers."""
    resources = installation.resources
    for name in resources.written_stores:
        if name not in kept.servers:
            for namespace in made:
                resources.serving(name, namespace).warm(namespace)
    return {name: resources.documents.generation(name) for name in made}


class _Replacement:
    """Writes new files and folders beside the old ones; `finish` puts all of them in place."""

    def __init__(self) -> None:
        self.new: dict[Path, Path] = {}

    def of(self, target: Path) -> Path:
        """The path for the new file or folder; its parent exists, the path itself does not."""
        new = self.new[target] = _beside(target, "restoring")
        new.parent.mkdir(parents=True, exist_ok=True)
        return new

    def finish(self) -> None:
        for target, new in self.new.items():
            old = _beside(target, "replaced")
            if target.exists():
                target.replace(old)
            # SQLite would read the write-ahead log of the old file as that of the new one.
            for suffix in ("-wal", "-shm"):
                target.with_name(target.name + suffix).unlink(missing_ok=True)
            new.replace(target)
        for target in self.new:
            _beside(target, "replaced")

    def abandon(self) -> None:
        for target in self.new:
            _beside(target, "restoring")


def _beside(target: Path, what: str) -> Path:
    """A path on the same file system, where anything that was there is deleted."""
    path = target.with_name(f"{target.name}.{what}")
    for there in (path, path.with_name(f"{path.name}.locks")):
        if there.is_dir():
            shutil.rmtree(there)
        else:
            there.unlink(missing_ok=True)
    return path


@contextmanager
def _alone(installation: Installation, kept: KeptFiles) -> Iterator[None]:
    """Hold every namespace, so that nobody indexes; raises ServiceError where workers run or one is held."""
    if installation.redis is not None and (workers := read_heartbeats(installation.redis)):
        raise ServiceError(
            f"{len(workers)} processes work here ({', '.join(worker.name for worker in workers)}): stop them first"
        )
    with ExitStack() as held:
        if kept.documents is not None and kept.documents.exists():
            table = DocumentTable(kept.documents, writer_wait_s=0)
            held.callback(table.close)
            # A damaged database is replaced as well.
            with suppress(BadIndex, StoreUnavailable):
                for state in table.namespaces():
                    held.enter_context(table.exclusive(state.name))
        yield


def _known_generations(
    installation: Installation, kept: KeptFiles, folder: Path, backup: Backup
) -> dict[str, int]:
    """The newest generation with which an answer may have been cached, by namespace: in the data, the backup or Redis."""
    known: dict[str, int] = {}
    if kept.documents is not None and backup.documents is not None:
        known = _highest(
            generations_in(kept.documents), generations_in(folder / backup.documents, is_copy=True)
        )
    if installation.redis is not None:
        for key in installation.redis.scan_iter(GENERATION + "*", count=1_000):
            name = key.decode().removeprefix(GENERATION)
            known = _highest(known, {name: int(installation.redis.get(key) or 0)})
    return known


def _highest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _tell(installation: Installation, made: dict[str, int], *, gone: set[str]) -> None:
    """Write the generations into Redis; where none answers, the workers do so when they start."""
    if installation.redis is not None:
        with suppress(RedisError):
            for name in gone:
                installation.redis.delete(GENERATION + name)
            for name, generation in made.items():
                installation.redis.set(GENERATION + name, generation)


def _tell_rules(installation: Installation) -> None:
    """Copy the rules to Redis; if that fails, the sweeper does so when it starts."""
    if installation.redis is None:
        return
    url = installation.settings.audit_database_url
    with suppress(RedisError, ServiceError, SQLAlchemyError):
        upgrade(url)
        engine = open_database(url, must_exist=True)
        try:
            copy_rules(installation.redis, RuleStore(engine))
        finally:
            engine.dispose()
