"""All stores of an installation, written as one.

A batch goes into the table, then into every store at once.  Then the table records each store's result, and the
generation rises; a store with a generation of its own then has the same one.  A process that is killed in between
leaves documents whose state is behind; `settle` writes them again, which is safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

from models.batching import in_batches
from models.documents import Document, Manifest, NamespaceState
from models.errors import (
    ManifestMismatch,
    NotEverywhere,
    ServiceError,
    UnknownNamespace,
    WrongDeclaration,
)
from search.checks import check_manifest, checked_documents, same_manifest
from search.documents.document_table import Build, Change, DocumentTable
from search.documents.engine_writer import EngineWriter
from search.documents.rebuilding import Rebuilding, rebuild_store, taken
from search.documents.verifying import Difference, difference
from search.near_duplicate_rows import NearDuplicateRows
from search.protocol import Engine, OwnGeneration

_BATCH = 256
_WAITS = "the store could not be rebuilt yet"


class ClusteredStore:
    """Implements `search.protocol.WritingStore`; thread-safe.  Searches use the store that their branch declares."""

    def __init__(self, stores: Mapping[str, Engine], table: DocumentTable) -> None:
        self.stores = stores
        self.table = table
        self._writers = {name: EngineWriter(name, store) for name, store in stores.items()}

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        """Raises ManifestMismatch, or a store's failure if no store could create the namespace.

        If only some stores could, the next batch creates the namespace in the others.
        """
        check_manifest(namespace, manifest)
        found = self.table.find(namespace)
        if found is None:
            with self.exclusive(namespace):
                if (found := self.table.find(namespace)) is None:
                    _in_some(self.stores, lambda name: self.stores[name].create(namespace, manifest))
                    self.table.make(namespace, manifest)
                    return manifest
        same_manifest(namespace, found.manifest, manifest)
        build, waiting = found, self.table.to_rebuild(found)
        _in_some([name for name in self.stores if name not in waiting], lambda name: self._make(build, name))
        return manifest

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        with self.exclusive(namespace):
            build = self.known(namespace)
            chosen = checked_documents(documents, build.manifest)
            return taken(chosen, namespace, lambda documents: self._put(build, documents))

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        """Raises NotEverywhere if a store failed to delete; the next `settle` deletes there."""
        with self.exclusive(namespace):
            build = self.known(namespace)
            changes = self.table.take_out(build, document_ids)
            if changes:
                self._spread(build, changes)
            return len(changes)

    def drop(self, namespace: str) -> bool:
        """Raises the first store's failure after trying all stores; may be repeated."""
        found = self.table.find(namespace)
        with self.exclusive(namespace):
            failures: list[ServiceError] = []
            there = found is not None
            for store in self.stores.values():
                try:
                    there = store.drop(namespace) or there
                except ServiceError as error:
                    failures.append(error)
            if failures:
                raise failures[0]
            self.table.drop(namespace)
            if there:
                self.table.raise_generation(namespace, self.table.generation(namespace) + 1)
        return there

    def namespaces(self) -> list[NamespaceState]:
        return self.table.namespaces()

    def revisions(self, namespace: str, source: str | None = None) -> dict[str, str]:
        return self.table.revisions(self.known(namespace), source)

    def held(
        self, namespace: str, document_ids: Iterable[str], *, source: str | None = None
    ) -> dict[str, str]:
        return self.table.held(self.known(namespace), document_ids, source)

    @contextmanager
    def near_duplicate_rows(self, namespace: str) -> Iterator[NearDuplicateRows]:
        with self.exclusive(namespace), self.table.near_duplicate_rows(self.known(namespace)) as rows:
            yield rows

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        self.known(namespace)
        return self.table.generation(namespace)

    def raise_generation(self, namespace: str, least: int) -> None:
        with self.exclusive(namespace):
            self.table.raise_generation(namespace, least)

    def exclusive(self, namespace: str) -> AbstractContextManager[None]:
        """Hold the namespace for several writes; others get WriterBusy."""
        return self.table.exclusive(namespace)

    def warm(self, namespace: str | None = None) -> None:
        """Let every store load what searching needs; raises the first failure."""
        for store in self.stores.values():
            store.warm(namespace)

    def close(self) -> None:
        """Close stores and database."""
        for store in self.stores.values():
            store.close()
        self.table.close()

    def settle(self, namespace: str) -> dict[str, str]:
        """Write again what a store does not show yet: after a crash, a failure, or when a store was added.

        Returns the reasons why documents are still not in every store, by document id.
        """
        with self.exclusive(namespace):
            build = self.known(namespace)
            rebuilt = [self._rebuild(build, store) for store in self.table.to_rebuild(build)]
            did_write = any(rebuilt)
            waiting = self.table.to_rebuild(build)
            is_whole = not waiting
            for name, writer in self._writers.items():
                writer.ask_again()
                if name in waiting:
                    continue
                with suppress(ServiceError):
                    self._make(build, name)
                has_all = True
                for part in in_batches(list(self.table.behind(build, name)), _BATCH):
                    result = writer.write(namespace, self.table.changes(build, part))
                    self.table.record(build, {name: result}, stores=self.stores)
                    did_write = did_write or len(result.failures) < len(result.changes)
                    has_all = has_all and not result.failures
                    if writer.is_away:
                        break
                if has_all:
                    self.table.mark_whole(build, name)
                is_whole = is_whole and has_all
            self._level(namespace, self.table.generation(namespace) + did_write)
            # Looking through all documents again would take time in proportion to the namespace.
            return {} if is_whole else self.unwritten(namespace)

    def verify(self, namespace: str, *, mends: bool) -> dict[str, Difference]:
        """The difference between each store and the table; with `mends`, writes or deletes whatever differs."""
        with self.exclusive(namespace):
            build = self.known(namespace)
            found = {name: difference(self.table, build, store) for name, store in self.stores.items()}
            if not mends:
                return found
            for name, one in found.items():
                self.table.mark_behind(build, name, one.to_write)
                self._writers[name].ask_again()
                for part in in_batches(one.surplus, _BATCH):
                    changes = [Change(document_id, 0, None) for document_id in part]
                    result = self._writers[name].write(namespace, changes)
                    if result.failures:
                        found[name] = replace(one, failure=next(iter(result.failures.values())))
                        break
            if any(found.values()):
                self._level(namespace, self.table.generation(namespace) + 1)
            self.settle(namespace)
        return found

    def unwritten(self, namespace: str) -> dict[str, str]:
        """The reasons why documents are not in every store, by document id."""
        build = self.known(namespace)
        waiting = self.table.to_rebuild(build)
        behind = {name: self.table.behind(build, name) for name in self.stores}
        return _joined(
            {
                name: dict.fromkeys(reasons, _WAITS) if name in waiting else reasons
                for name, reasons in behind.items()
            }
        )

    def make_room(self) -> None:
        """Nothing to do: a damaged table of documents is restored from a backup."""

    def rebuilding(self, namespace: str, manifest: Manifest) -> Rebuilding:
        """Begin a build beside the searched one, or continue one with the same manifest.

        `finish` makes it the current build.
        """
        check_manifest(namespace, manifest)
        return Rebuilding(self.table, namespace, manifest, finish=self._promote)

    def known(self, namespace: str) -> Build:
        """Raises UnknownNamespace."""
        found = self.table.find(namespace)
        if found is None:
            raise UnknownNamespace(namespace, "the table of documents")
        return found

    def _put(self, build: Build, documents: Sequence[Document]) -> int:
        if not documents:
            return self.table.generation(build.name)
        return self._spread(build, self.table.put(build, documents))

    def _spread(self, build: Build, changes: Sequence[Change]) -> int:
        """Let every store apply the changes; returns the new generation, raises NotEverywhere."""
        waiting = self.table.to_rebuild(build)
        asked = [writer for name, writer in self._writers.items() if name not in waiting]
        with ThreadPoolExecutor(max(1, len(asked))) as pool:
            done = pool.map(lambda writer: writer.write(build.name, changes), asked)
            results = {writer.name: one for writer, one in zip(asked, done, strict=True)}
        for name in [name for name, one in results.items() if one.is_missing]:
            with suppress(ServiceError):
                self._make(build, name)
                results[name] = self._writers[name].write(build.name, changes)
        self.table.record(build, results, stores=self.stores, is_batch=True)
        generation = self._level(build.name, self.table.generation(build.name) + 1)
        failures = {name: one.failures for name, one in results.items()}
        for name in self._writers.keys() & waiting:
            failures[name] = {change.document_id: _WAITS for change in changes}
        if said := _joined(failures):
            raise NotEverywhere(build.name, said, generation)
        return generation

    def _level(self, namespace: str, least: int) -> int:
        """Give the table, and the stores with a generation of their own, one: `least`, or the highest of any store.

        Answers of branches with different generations are not cached.
        """
        own: list[tuple[OwnGeneration, int]] = []
        for writer in self._writers.values():
            if not writer.is_away and isinstance(writer.store, OwnGeneration):
                with suppress(ServiceError):
                    own.append((writer.store, writer.store.generation(namespace)))
        generation = max([least, *(found for _, found in own)])
        for store, found in own:
            if found < generation:
                with suppress(ServiceError):
                    store.raise_generation(namespace, generation)
        return self.table.raise_generation(namespace, generation)

    def _make(self, build: Build, name: str) -> None:
        """Create the namespace in one store; a store that had lost it is written again with everything."""
        store = self.stores[name]
        if not store.has(build.name):
            # First, so that a crash in between leaves nothing recorded as written.
            with self.exclusive(build.name):
                self.table.mark_all_behind(build, name)
        store.create(build.name, build.manifest)

    def _promote(self, made: Build) -> int:
        self.table.promote(made, stores=self.stores)
        self.settle(made.name)
        return self.table.generation(made.name)

    def _rebuild(self, build: Build, store: str) -> bool:
        if store not in self._writers:
            self.table.rebuilt(build, store)
            return False
        writer = self._writers[store]
        writer.ask_again()
        return rebuild_store(self.table, build, writer, stores=self.stores)


def _in_some(stores: Collection[str], create: Callable[[str], object]) -> None:
    """Create a namespace in these stores; raises the first failure if it was created in none of them."""
    failures: list[ServiceError] = []
    for name in stores:
        try:
            create(name)
        except (ManifestMismatch, WrongDeclaration):
            raise
        except ServiceError as error:
            failures.append(error)
    if failures and len(failures) == len(stores):
        raise failures[0]


def _joined(reasons: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """`store: reason; store: reason` by document id, from the reasons by store and document id."""
    found: dict[str, list[str]] = {}
    for store, failures in reasons.items():
        for document_id, why in failures.items():
            found.setdefault(document_id, []).append(f"{store}: {why}")
    return {document_id: "; ".join(why) for document_id, why in sorted(found.items())}
