"""Puts a backup in place of the data of an installation."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from chorale_client.keys import GENERATION
from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError

from cli.backups.files import DOCUMENTS, TRAIL, Backup, DataFiles, data_files, read_backup
from cli.installation import Installation
from cli.local.home_lock import hold_home
from config.home import HOME_FORMAT, check_home, mark_home
from models.errors import BadIndex, ServiceError, StoreUnavailable
from monitoring.heartbeats import read_heartbeats
from records.database import open_database, upgrade
from records.rules.store import RuleStore, copy_rules
from search.documents.document_table import DocumentTable
from search.documents.snapshot import documents_from, generations_in


def put_back(installation: Installation, folder: Path, *, force: bool) -> Backup:
    """Put a backup in place of the data in the home, once all of it is ready.

    Raises ServiceError, with WriterBusy and BadIndex.
    """
    backup, data, home = read_backup(folder), data_files(installation), installation.settings.home
    if (DOCUMENTS in backup.files) != (data.documents is not None):
        have = "documents" if DOCUMENTS in backup.files else "no documents in a file"
        raise ServiceError(
            f"{folder} has {have}, unlike the installation here: set CHORALE_PIPELINE_FILE and CHORALE_DOCUMENTS_URL "
            "to what was backed up"
        )
    with hold_home(home), _alone(installation, data):
        trail = data.trail if TRAIL in backup.files else None
        known = _known_generations(installation, data, folder, backup)
        existing = [str(path) for path in (data.documents, trail) if path is not None and path.exists()]
        if existing and not force:
            raise ServiceError(f"{', '.join(existing)} would be replaced: add --force, or set CHORALE_HOME")
        replacement = _Replacement()
        try:
            made: dict[str, int] = {}
            if data.documents is not None and DOCUMENTS in backup.files:
                # The generation must be higher than each one under which an answer was cached.  Redis, which knows the newest,
                # may be away.  No namespace has had as many batches as there were seconds since 1970.
                now = int(time.time())
                least = {name: max(generation + 1, now) for name, generation in known.items()}
                new = replacement.of(data.documents)
                made = documents_from(folder / DOCUMENTS, new, generations=least, servers=data.servers)
            if trail is not None:
                shutil.copyfile(folder / TRAIL, replacement.of(trail))
            replacement.finish()
        finally:
            replacement.abandon()
        mark_home(home, HOME_FORMAT)
        check_home(home)
        if trail is not None:
            _print_rules(installation)
    _print_restored(installation, _with_indexes(installation, data, made), gone=known.keys() - made.keys())
    return backup


def _with_indexes(installation: Installation, data: DataFiles, made: dict[str, int]) -> dict[str, int]:
    """The generations of the namespaces, with their indexes in files; `chorale verify` builds those of servers."""
    resources = installation.resources
    for name in resources.written_stores:
        if name not in data.servers:
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
def _alone(installation: Installation, data: DataFiles) -> Iterator[None]:
    """Hold every namespace, so that nobody indexes; raises ServiceError where workers run or one is held."""
    if installation.redis is not None and (workers := read_heartbeats(installation.redis)):
        raise ServiceError(
            f"{len(workers)} processes work here ({', '.join(worker.name for worker in workers)}): stop them first"
        )
    with ExitStack() as locks:
        if data.documents is not None and data.documents.exists():
            table = DocumentTable(data.documents, writer_wait_s=0)
            locks.callback(table.close)
            # A damaged database is replaced as well.
            with suppress(BadIndex, StoreUnavailable):
                for state in table.namespaces():
                    locks.enter_context(table.exclusive(state.name))
        yield


def _known_generations(
    installation: Installation, data: DataFiles, folder: Path, backup: Backup
) -> dict[str, int]:
    """The newest generation with which an answer may have been cached, by namespace: in the data, the backup or Redis."""
    known: dict[str, int] = {}
    if data.documents is not None and DOCUMENTS in backup.files:
        known = _highest(generations_in(data.documents), generations_in(folder / DOCUMENTS, is_copy=True))
    if installation.redis is not None:
        for key in installation.redis.scan_iter(GENERATION + "*", count=1_000):
            name = key.decode().removeprefix(GENERATION)
            known = _highest(known, {name: int(installation.redis.get(key) or 0)})
    return known


def _highest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _print_restored(installation: Installation, made: dict[str, int], *, gone: set[str]) -> None:
    """Write the generations into Redis; where none answers, the workers do so when they start."""
    if installation.redis is not None:
        with suppress(RedisError):
            for name in gone:
                installation.redis.delete(GENERATION + name)
            for name, generation in made.items():
                installation.redis.set(GENERATION + name, generation)


def _print_rules(installation: Installation) -> None:
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
