"""What an installation keeps in files into a backup's folder, and back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from chorale_client.keys import GENERATION
from redis import RedisError

from audit.snapshot import copy_trail
from cli.backup.folder import (
    CORPUS,
    DOCUMENTS,
    MANIFEST,
    TRAIL,
    Backup,
    NoBackup,
    digests,
    read_backup,
)
from cli.backup.kept_files import KeptFiles, kept_files
from cli.installation import Installation
from cli.local.home_lock import AlreadyRunning, hold_home
from cli.monitoring.heartbeats import read_heartbeats
from config.home_format import HOME_FORMAT, check_home, mark_home
from models.documents import NamespaceState
from models.errors import BadIndex, ServiceError, StoreUnavailable
from search.embedded.snapshot import copy_corpus, corpus_from, generations, still_corpus
from search.embedded.store import EmbeddedStore
from search.several_stores.database import Database
from search.several_stores.document_table import DocumentTable
from search.several_stores.snapshot import copy_table, still, table_from, table_generations


class NotWritten(ServiceError):
    """The backup's folder does not take it."""


class DataIsThere(ServiceError):
    """Something would be overwritten that nobody said may be."""


def back_up(installation: Installation, target: Path, *, force: bool) -> Backup:
    """Write a backup into `target`, whole or not at all, while everything runs.

    Raises DataIsThere, NotWritten, BadIndex where a database is damaged, StoreUnavailable, WrongDeclaration.
    """
    kept = kept_files(installation)
    _check_target(target, force=force)
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        draft.mkdir(mode=0o700, parents=True)
        states = _copy_databases(kept, draft)
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
        raise NotWritten(f"no backup was written to {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return made


def _copy_databases(kept: KeptFiles, draft: Path) -> list[NamespaceState]:
    """All of one moment; the states of their namespaces, as the table of documents has them where it is copied."""
    states: dict[str, NamespaceState] = {}
    with ExitStack() as opened:
        table = None
        if kept.table is None:
            corpora = [opened.enter_context(still_corpus(folder)) for folder in kept.corpora.values()]
        else:
            table, corpora = opened.enter_context(still(kept.table, list(kept.corpora.values())))
        for (name, folder), source in zip(kept.corpora.items(), corpora, strict=True):
            (draft / name).parent.mkdir(exist_ok=True)
            for state in copy_corpus(source, folder, draft / name):
                states.setdefault(state.name, state)
        return list(states.values()) if table is None else copy_table(table, draft / DOCUMENTS)


def _check_target(target: Path, *, force: bool) -> None:
    if not target.exists():
        return
    if not force:
        raise DataIsThere(f"{target} is there already: name another folder, or add --force to replace it")
    if not (target / MANIFEST).is_file():
        raise DataIsThere(f"{target} is no backup, and only a backup is replaced: name another folder")


def put_back(installation: Installation, folder: Path, *, force: bool) -> Backup:
    """Put a backup in place of the data in the home, once all of it is ready.

    Raises NoBackup, DataIsThere, AlreadyRunning, WriterBusy, BadIndex.
    """
    backup, kept, home = read_backup(folder), kept_files(installation), installation.settings.home
    if backup.databases != kept.databases:
        raise NoBackup(
            f"{folder} has {_named(backup.databases)}, and the pipeline here keeps {_named(kept.databases)}: set "
            "CHORALE_PIPELINE_FILE (and CHORALE_DOCUMENTS_URL) to what was backed up"
        )
    with hold_home(home), _alone(installation, kept):
        trail = kept.trail if TRAIL in backup.files else None
        known = _known_generations(installation, kept, folder)
        targets = [*(path / CORPUS for path in kept.corpora.values()), kept.table, trail]
        there = [str(path) for path in targets if path is not None and path.exists()]
        if there and not force:
            raise DataIsThere(f"{', '.join(there)} would be replaced: add --force, or set CHORALE_HOME")
        replacement = _Replacement()
        try:
            made = _prepare(replacement, kept, folder, known)
            if trail is not None:
                shutil.copyfile(folder / TRAIL, replacement.of(trail))
            replacement.finish()
        finally:
            replacement.abandon()
        mark_home(home, backup.format)
        check_home(home)
        _tell(installation, made, gone=known.keys() - made.keys())
    return backup


def _prepare(
    replacement: _Replacement, kept: KeptFiles, backup: Path, known: Mapping[str, int]
) -> dict[str, int]:
    """Write what answers are made from; the generations of its namespaces, all beyond those that are known."""
    made: dict[str, int] = {}
    for name, folder in kept.corpora.items():
        made = _highest(made, corpus_from(backup / name, replacement.of(folder), after=known))
    if kept.table is not None:
        least = _highest({name: generation + 1 for name, generation in known.items()}, made)
        new = replacement.of(kept.table)
        made = table_from(backup / DOCUMENTS, new, generations=least, to_rebuild=kept.servers.keys())
    return made


def _named(files: Collection[str]) -> str:
    return " and ".join(sorted(files)) or "no database in a file"


class _Replacement:
    """New files and folders beside those whose place they take, all of them at the end."""

    def __init__(self) -> None:
        self.new: dict[Path, Path] = {}

    def of(self, target: Path) -> Path:
        """Where to write the new one; its folder is there, it is not."""
        new = self.new[target] = _beside(target, "restoring")
        new.parent.mkdir(parents=True, exist_ok=True)
        return new

    def finish(self) -> None:
        for target, new in self.new.items():
            old = _beside(target, "replaced")
            if target.exists():
                target.replace(old)
            # What was written ahead for the old file would be taken for the new one's.
            for suffix in ("-wal", "-shm"):
                target.with_name(target.name + suffix).unlink(missing_ok=True)
            new.replace(target)
        for target in self.new:
            _beside(target, "replaced")

    def abandon(self) -> None:
        for target in self.new:
            _beside(target, "restoring")


def _beside(target: Path, what: str) -> Path:
    """On the same file system; nothing is there any more."""
    path = target.with_name(f"{target.name}.{what}")
    for one in (path, path.with_name(f"{path.name}.locks")):
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)
    return path


@contextmanager
def _alone(installation: Installation, kept: KeptFiles) -> Iterator[None]:
    """No worker runs and nobody indexes; raises AlreadyRunning, WriterBusy."""
    if installation.redis is not None and (workers := read_heartbeats(installation.redis)):
        raise AlreadyRunning(
            f"{len(workers)} processes work here ({', '.join(worker.name for worker in workers)}): stop them first"
        )
    written: list[EmbeddedStore | DocumentTable] = [
        EmbeddedStore(folder, writer_wait_s=0)
        for folder in kept.corpora.values()
        if (folder / CORPUS).exists()
    ]
    if kept.table is not None and kept.table.exists():
        written.append(DocumentTable(Database(f"sqlite:///{kept.table}", writer_wait_s=0)))
    with ExitStack() as held:
        for one in written:
            held.callback(one.close)
            # A damaged database is just what a backup is for.
            with suppress(BadIndex, StoreUnavailable):
                for state in one.namespaces():
                    held.enter_context(one.exclusive(state.name))
        yield


def _known_generations(installation: Installation, kept: KeptFiles, backup: Path) -> dict[str, int]:
    """The newest generation that somebody may have cached an answer under, by namespace; that of the backup where it
    is newer."""
    known: dict[str, int] = {}
    for folder in kept.corpora.values():
        with suppress(BadIndex):
            known = _highest(known, generations(folder))
    for table in (kept.table, backup / DOCUMENTS):
        if table is not None:
            known = _highest(known, table_generations(table))
    if installation.redis is not None:
        for key in installation.redis.scan_iter(GENERATION + "*", count=1_000):
            name = key.decode().removeprefix(GENERATION)
            known = _highest(known, {name: int(installation.redis.get(key) or 0)})
    return known


def _highest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _tell(installation: Installation, made: dict[str, int], *, gone: set[str]) -> None:
    """Without a Redis, the workers do it when they start."""
    if installation.redis is not None:
        with suppress(RedisError):
            for name in gone:
                installation.redis.delete(GENERATION + name)
            for name, generation in made.items():
                installation.redis.set(GENERATION + name, generation)
