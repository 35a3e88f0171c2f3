"""All stores of an installation, written as one.

A batch goes into the documents' database, then into every store at once.  Then one transaction notes how far each
store has come and raises the generation, so that readers see the batch.  A process that is killed in between leaves
stores that have not come as far as the database; `settle` writes the rest, which is safe to repeat.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from structlog import get_logger

from models.documents import Document, Manifest, NamespaceState
from models.errors import (
    BadIndex,
    ManifestMismatch,
    NotEverywhere,
    ServiceError,
    UnknownNamespace,
    WrongDeclaration,
)
from search.checks import check_manifest, checked_documents, same_manifest
from search.documents.document_rows import put_storable
from search.documents.document_table import CURRENT, NEXT, Build, Changes, DocumentTable, Written
from search.documents.engine_writer import EngineWriter
from search.documents.index_rows import IndexRow
from search.documents.lookups import OLD
from search.documents.verifying import MOST_LISTED, Difference, difference
from search.near_duplicate_rows import NearDuplicateRows
from search.protocol import Engine

log = get_logger("chorale.index")

_WAITS = "the store has not built its index yet"
_BEHIND = "not written yet"


class DocumentStore:
    """Thread-safe; one writer at a time for each namespace.  Searches use the store that their branch declares."""

    which = CURRENT

    def __init__(self, stores: Mapping[str, Engine], table: DocumentTable, *, is_whole: bool = True) -> None:
        """`is_whole`: these are all stores, so what they have replaced is removed."""
        self.stores = stores
        self.table = table
        self._pruned_by: Collection[str] = stores if is_whole else ()
        self._writers = {name: EngineWriter(name, store) for name, store in stores.items()}

    def create(
        self, namespace: str, manifest: Manifest, *, may_make: Callable[[], bool] = lambda: True
    ) -> Manifest:
        """Raises ManifestMismatch, or a store's failure if no store could create the namespace.

        If only some stores could, the next batch creates the namespace in the others.  `may_make` is called while the namespace is
        held; if it returns False, a namespace that is not there is not made, and UnknownNamespace is raised.
        """
        check_manifest(namespace, manifest)
        build = self.table.find(namespace, self.which)
        if build is None or _is_first_measure(build, manifest):
            with self.exclusive(namespace):
                if self.table.find(namespace, self.which) is None and may_make():
                    return self._make(namespace, manifest)
                build = self.known(namespace)
                same_manifest(namespace, build.manifest, manifest)
                if _is_first_measure(build, manifest):
                    build = replace(build, manifest=replace(build.manifest, known_words=manifest.known_words))
                    self.table.describe(build)
        same_manifest(namespace, build.manifest, manifest)
        rows, writers = self.table.indexes(build), self.writers(build)
        _in_some([rows[writer.name] for writer in writers if writer.name in rows], self.ensure)
        return build.manifest

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        """Replace each document whole; returns the new generation, which readers can see.

        Idempotent.  Raises WriterBusy, BadIndex (unknown namespace), InvalidAnswer (a vector's length), and
        PartlyWritten if some documents were refused, or some store does not show them yet.  The others are written.
        """
        with self.exclusive(namespace):
            build = self.known(namespace)
            chosen = checked_documents(documents, build.manifest)
            return put_storable(chosen, namespace, lambda documents: self._put(build, documents))

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        """Delete documents; returns how many of them existed.

        Raises NotEverywhere if a store failed to delete; the next `settle` deletes there.
        """
        with self.exclusive(namespace):
            build = self.known(namespace)
            changes = self.table.take_out(build, document_ids)
            if changes is None:
                return 0
            self._spread(build, changes)
            return len(changes.deleted)

    def drop(self, namespace: str) -> bool:
        """Raises the first store's failure after trying all stores; may be repeated."""
        if self.table.find(namespace) is None:
            return False
        with self.exclusive(namespace):
            failures: list[ServiceError] = []
            for row in self.table.all_indexes(namespace):
                if row.store in self.stores:
                    try:
                        self.stores[row.store].drop(row.index)
                    except ServiceError as error:
                        failures.append(error)
            if failures:
                raise failures[0]
            self.table.drop(namespace)
            self.table.raise_generation(namespace, by=1)
        return True

    def namespaces(
        self, *, limit: int | None = None, names: Collection[str] | None = None
    ) -> list[NamespaceState]:
        """As `lookups.namespaces`."""
        return self.table.namespaces(limit=limit, names=names)

    def revisions(self, namespace: str, source: str | None = None) -> dict[str, str]:
        """Revision by document id of everything indexed from `source`, or from any source if None."""
        return self.table.revisions(self.known(namespace), source)

    def revisions_of(
        self, namespace: str, document_ids: Iterable[str], *, source: str | None = None
    ) -> dict[str, str]:
        """As `lookups.revisions_of`."""
        return self.table.revisions_of(self.known(namespace), document_ids, source)

    @contextmanager
    def near_duplicate_rows(self, namespace: str) -> Iterator[NearDuplicateRows]:
        with self.exclusive(namespace), self.table.near_duplicate_rows(self.known(namespace)) as rows:
            yield rows

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        self.known(namespace)
        return self.table.generation(namespace)

    def exclusive(self, namespace: str) -> AbstractContextManager[None]:
        """Hold the namespace for several writes; others get WriterBusy."""
        return self.table.exclusive(namespace)

    def close(self) -> None:
        """Close stores and database."""
        for store in self.stores.values():
            store.close()
        self.table.close()

    def settle(self, namespace: str) -> dict[str, str]:
        """Write again what a store does not show yet: after a crash, a failure, a rebuild, or when a store was added.

        Returns the reasons why documents are still not in every store, by document id.
        """
        with self.exclusive(namespace):
            build = self.known(namespace)
            rows, writers = self.table.indexes(build), self.writers(build)
            for writer in writers:
                writer.retry_now()
                self._bring_up(build, writer.name, rows.get(writer.name))
            if build.manifest.stores:
                self.drop_indexes(
                    build, lambda row: row.is_visible or row.index.namespace_id != build.namespace_id
                )
            has_old_index = any(
                row.store in self.stores and row.index.namespace_id != build.namespace_id
                for row in self.table.all_indexes(namespace)
            )
            if self._pruned_by and not has_old_index and self.table.find(namespace, OLD) is not None:
                self.table.drop(namespace, OLD)
            return self.unwritten(namespace)

    def verify(self, namespace: str, *, mends: bool) -> dict[str, Difference]:
        """The difference between each store and the database; with `mends`, writes or deletes whatever differs."""
        with self.exclusive(namespace):
            build = self.known(namespace)
            rows = self.table.indexes(build)
            differences = {
                writer.name: difference(self.table, build, writer, rows.get(writer.name), mends=mends)
                for writer in self.writers(build)
            }
            if mends:
                if any(differing.surplus for differing in differences.values()):
                    self.table.raise_generation(namespace, by=1)
                self.settle(namespace)
        return differences

    def unwritten(self, namespace: str) -> dict[str, str]:
        """The reasons why documents are not in every store, by document id: `store: reason; store: reason`.

        At most the first `MOST_LISTED` of each store.
        """
        build = self.known(namespace)
        rows = self.table.indexes(build)
        reasons: dict[str, list[str]] = {}
        for writer in self.writers(build):
            name, row = writer.name, rows.get(writer.name)
            waits = _WAITS if row is None or not row.is_visible else _BEHIND
            why = str(writer.failure or waits)
            behind = self.table.changed_since(build, row.sequence if row else 0)
            missing = ((document_id, why) for portion, _ in behind for document_id in portion)
            refused = chain.from_iterable(portion.items() for portion in self.table.refused(build, name))
            for document_id, reason in dict(islice(chain(missing, refused), MOST_LISTED)).items():
                reasons.setdefault(document_id, []).append(f"{name}: {reason}")
        return {document_id: "; ".join(parts) for document_id, parts in sorted(reasons.items())}

    def set_aside_damaged_file(self) -> Path | None:
        """Let a new database be made where its file is gone or damaged; returns where the damaged file is."""
        aside = self.table.set_aside()
        if aside is not None:
            for store in self.stores.values():
                store.close()
        return aside

    def known(self, namespace: str) -> Build:
        """Raises UnknownNamespace."""
        build = self.table.find(namespace, self.which)
        if build is None:
            names = [state.name for state in self.table.namespaces(limit=20)]
            raise UnknownNamespace(namespace, "the documents' database", names)
        return build

    def writers(self, build: Build) -> list[EngineWriter]:
        """The writers of all stores, or of the stores that a moved namespace has.  Raises BadIndex if none is here."""
        names = build.manifest.stores or list(self._writers)
        chosen = [writer for name, writer in self._writers.items() if name in names]
        if self._writers and not chosen:
            raise BadIndex(
                f"namespace {build.name!r} was moved to {', '.join(names)}, which is not here; there are: "
                f"{', '.join(self._writers)}"
            )
        return chosen

    def drop_indexes(self, build: Build, which: Callable[[IndexRow], bool]) -> None:
        """Drop those indexes of a moved namespace that are in stores that it was not moved to."""
        for row in self.table.all_indexes(build.name):
            if row.store not in build.manifest.stores and row.store in self.stores and which(row):
                try:
                    self.stores[row.store].drop(row.index)
                    self.table.forget_index(row)
                except ServiceError as error:
                    log.error("an old index was not dropped", store=row.store, why=str(error)[:500])

    def _make(self, namespace: str, manifest: Manifest) -> Manifest:
        self.table.make(namespace, manifest, stores=self.stores)
        rows = self.table.indexes(self.known(namespace))
        try:
            _in_some(list(rows.values()), lambda row: self.stores[row.store].create(row.index))
        except BaseException:
            self.table.drop(namespace)
            raise
        return manifest

    def ensure(self, row: IndexRow) -> IndexRow:
        """Create the index if the store has lost it; it is then written again with everything."""
        if (store := self.stores.get(row.store)) is None:
            return row
        is_lost = row.sequence > 0 and not store.has(row.index)
        if is_lost:
            # First, so that a crash in between leaves nothing recorded as written.
            with self.exclusive(row.index.namespace):
                self.table.empty_index(row)
        store.create(row.index)
        return replace(row, sequence=0) if is_lost else row

    def _put(self, build: Build, documents: Sequence[Document]) -> int:
        if not documents:
            return self.table.generation(build.name)
        return self._spread(build, self.table.put(build, documents))

    def _spread(self, build: Build, changes: Changes) -> int:
        """Let every store apply the changes; returns the new generation, raises NotEverywhere."""
        rows = self.table.indexes(build)

        def write(writer: EngineWriter) -> Written | str:
            row = rows.get(writer.name)
            if row is None or not row.is_visible:
                return _WAITS
            if row.sequence < changes.sequence - 1:
                return _BEHIND
            try:
                return Written(row, changes, writer.write(row.index, changes))
            except ServiceError as error:
                return str(error)

        writers = self.writers(build)
        if len(writers) > 1:
            with ThreadPoolExecutor(len(writers)) as pool:
                results = list(pool.map(write, writers))
        else:
            results = [write(writer) for writer in writers]
        written = [result for result in results if isinstance(result, Written)]
        is_seen = bool(self.stores)
        generation = self.table.record(build, written, stores=self._pruned_by, is_seen=is_seen)
        reasons = defaultdict[str, list[str]](list)
        for writer, result in zip(writers, results, strict=True):
            if isinstance(result, Written):
                refused = result.refused
            elif self._catches_up(build, writer, rows.get(writer.name), result):
                refused = self.table.refused_of(build, writer.name, changes.ids)
                generation = self.table.generation(build.name)
            else:
                refused = dict.fromkeys(changes.ids, str(writer.failure or result))
            for document_id in refused.keys() & set(changes.ids):
                reasons[document_id].append(f"{writer.name}: {refused[document_id]}")
        if reasons:
            joined = {document_id: "; ".join(parts) for document_id, parts in sorted(reasons.items())}
            raise NotEverywhere(build.name, joined, generation)
        return generation

    def _catches_up(self, build: Build, writer: EngineWriter, row: IndexRow | None, failure: str) -> bool:
        """Whether a store that was behind, or has lost its index, contains every batch now."""
        is_lost = isinstance(writer.failure, BadIndex)
        can = row is not None and row.is_visible and not writer.is_away and (failure == _BEHIND or is_lost)
        return can and self._bring_up(build, writer.name, row)

    def _bring_up(self, build: Build, name: str, row: IndexRow | None) -> bool:
        """Have a store contain every batch; False if that failed."""
        writer = self._writers[name]
        try:
            row = self.table.add_index(build, name) if row is None else row
            row = self.ensure(row)
            for refused in self.table.refused(build, name):
                self.apply(build, writer, row, self.table.changes(build, list(refused), row.sequence))
            for changes in self.table.changes_since(build, row.sequence):
                self.apply(build, writer, row, changes)
            if not row.is_visible:
                self.table.show_index(row)
            for other in self.table.all_indexes(build.name):
                if other.store == name and other.index.name != row.index.name:
                    writer.store.drop(other.index)
                    self.table.forget_index(other)
        except ServiceError as error:
            log.error("a store was not written", store=name, namespace=build.name, why=str(error)[:500])
            return False
        return True

    def apply(self, build: Build, writer: EngineWriter, row: IndexRow, changes: Changes) -> None:
        refused = writer.write(row.index, changes)
        is_seen = row.is_visible and len(refused) < len(changes.ids)
        self.table.record(build, [Written(row, changes, refused)], stores=self._pruned_by, is_seen=is_seen)


def _is_first_measure(build: Build, manifest: Manifest) -> bool:
    """Whether the documents that were indexed so far had too few words to be measured."""
    return build.manifest.known_words is None and manifest.known_words is not None


def _in_some(rows: Sequence[IndexRow], create: Callable[[IndexRow], object]) -> None:
    """Create indexes; raises the first failure if none could be created."""
    failures: list[ServiceError] = []
    for row in rows:
        try:
            create(row)
        except (ManifestMismatch, WrongDeclaration):
            raise
        except ServiceError as error:
            failures.append(error)
    if failures and len(failures) == len(rows):
        raise failures[0]


class Rebuilding(DocumentStore):
    """A second build of a namespace, begun or continued with the same manifest; no store is written before `finish`."""

    which = NEXT

    def __init__(self, store: DocumentStore, namespace: str, manifest: Manifest) -> None:
        super().__init__({}, store.table)
        self._store, self._namespace = store, namespace
        check_manifest(namespace, manifest)
        with self.exclusive(namespace):
            begun = self.table.find(namespace, NEXT)
            if begun is not None and begun.manifest != manifest:
                self.table.drop(namespace, NEXT)
                begun = None
            if begun is None:
                self.table.make(namespace, manifest, NEXT)

    def finish(self) -> int:
        """Make the new build the current one and have every store build its index; returns the generation.

        After a failure `settle` continues from here.
        """
        with self.exclusive(self._namespace):
            made, current = self.known(self._namespace), self.table.find(self._namespace)
            if current is not None:
                self.table.describe(
                    replace(made, manifest=replace(made.manifest, stores=current.manifest.stores))
                )
            self.table.promote(made)
            self._store.settle(self._namespace)
            return self.table.generation(self._namespace)
