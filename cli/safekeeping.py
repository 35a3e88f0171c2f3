"""The embedded data of an installation into a backup's folder, and back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from chorale_client.keys import GENERATION
from redis import RedisError

from audit.snapshot import copy_trail, trail_file
from cli.backup_folder import CORPUS, MANIFEST, NEAR_DUPLICATES, TRAIL, Backup, digests, read_backup
from cli.home_lock import AlreadyRunning, hold_home
from cli.liveness import read_workers
from cli.surroundings import Surroundings
from config.home import HOME_FORMAT, check_home, mark_home
from models.errors import BadIndex, ServiceError
from search.embedded.snapshot import copy_corpus, corpus_from, generations
from search.embedded.store import EmbeddedStore


class DataIsThere(ServiceError):
    """Something would be overwritten that nobody said may be."""


def back_up(around: Surroundings, target: Path, *, force: bool) -> Backup:
    """Write a backup into `target`, whole or not at all, while everything runs.

    Raises DataIsThere, BadIndex where the corpus is damaged, WrongDeclaration.
    """
    settings = around.settings
    _check_target(target, force=force)
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    draft.mkdir(mode=0o700, parents=True)
    try:
        states = copy_corpus(settings.corpus_dir, draft / CORPUS)
        # After the documents: what it knows beyond them does no harm, what it does not know would be missed.
        if (settings.corpus_dir / NEAR_DUPLICATES).is_dir():
            shutil.copytree(settings.corpus_dir / NEAR_DUPLICATES, draft / NEAR_DUPLICATES)
        file = trail_file(settings.audit_database_url)
        if file is not None and file.exists():
            copy_trail(file, draft / TRAIL)
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
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return made


def _check_target(target: Path, *, force: bool) -> None:
    if not target.exists():
        return
    if not force:
        raise DataIsThere(f"{target} is there already: name another folder, or add --force to replace it")
    if not (target / MANIFEST).is_file():
        raise DataIsThere(f"{target} is no backup, and only a backup is replaced: name another folder")


def put_back(around: Surroundings, folder: Path, *, force: bool) -> Backup:
    """Put a backup in place of the data in the home, once all of it is ready.

    Raises NoBackup, DataIsThere, AlreadyRunning, WriterBusy, BadIndex.
    """
    backup, settings = read_backup(folder), around.settings
    home, corpus = settings.home, settings.corpus_dir
    with hold_home(home), _alone(around):
        trail = trail_file(settings.audit_database_url) if TRAIL in backup.files else None
        known = _known_generations(around)
        there = [str(path) for path in (corpus / CORPUS, trail) if path is not None and path.exists()]
        if there and not force:
            raise DataIsThere(f"{', '.join(there)} would be replaced: add --force, or set CHORALE_HOME")
        draft = home / "restoring"
        shutil.rmtree(draft, ignore_errors=True)
        made = corpus_from(folder / CORPUS, draft / "corpus", after=known)
        if (folder / NEAR_DUPLICATES).is_dir():
            shutil.copytree(folder / NEAR_DUPLICATES, draft / "corpus" / NEAR_DUPLICATES)
        if trail is not None:
            shutil.copyfile(folder / TRAIL, draft / TRAIL)
        _replace(corpus, draft / "corpus", draft / "old")
        if trail is not None:
            # What was written ahead for the old file would be taken for the new one's.
            for suffix in ("-wal", "-shm"):
                trail.with_name(trail.name + suffix).unlink(missing_ok=True)
            trail.parent.mkdir(parents=True, exist_ok=True)
            (draft / TRAIL).replace(trail)
        mark_home(home, backup.format)
        shutil.rmtree(draft)
        check_home(home)
        _tell(around, made, gone=known.keys() - made.keys())
    return backup


def _replace(path: Path, new: Path, old: Path) -> None:
    if path.exists():
        path.replace(old)
    new.replace(path)


@contextmanager
def _alone(around: Surroundings) -> Iterator[None]:
    """No worker runs and nobody indexes; raises AlreadyRunning, WriterBusy."""
    if around.redis is not None and (workers := read_workers(around.redis)):
        raise AlreadyRunning(
            f"{len(workers)} processes work here ({', '.join(worker.name for worker in workers)}): stop them first"
        )
    store = EmbeddedStore(around.settings.corpus_dir, writer_wait_s=0)
    with ExitStack() as held:
        # A damaged corpus is just what a backup is for.
        with suppress(BadIndex):
            if (around.settings.corpus_dir / CORPUS).exists():
                for state in store.namespaces():
                    held.enter_context(store.exclusive(state.name))
        yield
    store.close()


def _known_generations(around: Surroundings) -> dict[str, int]:
    """The newest generation that somebody may have cached an answer under, by namespace."""
    known: dict[str, int] = {}
    with suppress(BadIndex):
        known = generations(around.settings.corpus_dir)
    if around.redis is not None:
        for key in around.redis.scan_iter(GENERATION + "*", count=1_000):
            name = key.decode().removeprefix(GENERATION)
            known[name] = max(known.get(name, 0), int(around.redis.get(key) or 0))
    return known


def _tell(around: Surroundings, made: dict[str, int], *, gone: set[str]) -> None:
    """Without a Redis, the workers do it when they start."""
    if around.redis is not None:
        with suppress(RedisError):
            for name in gone:
                around.redis.delete(GENERATION + name)
            for name, generation in made.items():
                around.redis.set(GENERATION + name, generation)
