"""Moving a namespace to other stores while it is searched and written.

The new indexes are built beside the present ones, in turns with the writers of the namespace.  When they have every batch and
equal the documents, one transaction lets the new stores serve.  Until then a search sees nothing of them, and a run that was
killed goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from models.errors import NotConfigured, StoreUnavailable, WriterBusy
from search.documents.document_table import Build
from search.documents.engine_writer import EngineWriter
from search.documents.store import DocumentStore
from search.documents.verifying import Difference, difference

_TURN_S = 1.0
_WAIT_S = 3_600.0
"""The time that a batch of another writer may take."""
_PAUSE_S = 0.1
"""The pause between two turns, in which a waiting writer takes the namespace."""


def move(
    store: DocumentStore,
    namespace: str,
    stores: Sequence[str],
    *,
    progress: Callable[[int], None] = lambda documents: None,
) -> None:
    """Have `stores` alone serve the namespace, and drop its other indexes; `progress` gets the number of documents still to write.

    A move to the present stores gives up an unfinished one.  Raises NotConfigured for an unknown store, UnknownNamespace, WriterBusy,
    and StoreUnavailable if a store does not become equal to the documents: then the present stores go on serving.
    """
    if unknown := [name for name in stores if name not in store.stores]:
        raise NotConfigured(
            f"no store {unknown[0]!r} takes documents here; there are: {', '.join(sorted(store.stores))}"
        )
    with store.table.exclusive(namespace, wait_s=_WAIT_S):
        _begin(store, namespace, stores)
    while True:
        with store.table.exclusive(namespace, wait_s=_WAIT_S):
            build = store.known(namespace)
            writers = [EngineWriter(name, store.stores[name]) for name in stores]
            remaining = sum(_one_turn(store, build, writer) for writer in writers)
            progress(remaining)
            if not remaining:
                for writer in writers:
                    _check(store, build, writer)
                store.table.move(build, stores)
                store.settle(namespace)
                return
        time.sleep(_PAUSE_S)


def _begin(store: DocumentStore, namespace: str, stores: Sequence[str]) -> None:
    """Note which stores serve now, so that no writer builds the new indexes whole; drop what another move has begun."""
    build = store.known(namespace)
    if not build.manifest.stores:
        rows = store.table.indexes(build)
        serving = [name for name, row in rows.items() if row.is_visible]
        if set(stores) <= set(serving):
            return
        build = replace(build, manifest=replace(build.manifest, stores=serving))
        store.table.describe(build)
    store.drop_indexes(build, lambda row: row.store not in stores)
    for name in set(stores) - store.table.indexes(build).keys():
        store.table.add_index(build, name)


def _one_turn(store: DocumentStore, build: Build, writer: EngineWriter) -> int:
    """Write for about a second; returns how many documents are left."""
    ends_s = time.monotonic() + _TURN_S
    row = store.table.indexes(build).get(writer.name)
    if row is None:
        raise WriterBusy(
            f"another move or rebuild of namespace {build.name!r} has begun, and gave this one up"
        )
    row = store.ensure(row)
    for changes in store.table.changes_since(build, row.sequence):
        store.apply(build, writer, row, changes)
        row = replace(row, sequence=changes.sequence)
        if time.monotonic() > ends_s:
            break
    return store.table.count_changed_since(build, row.sequence)


def _check(store: DocumentStore, build: Build, writer: EngineWriter) -> None:
    """Mend what differs from the documents; raises StoreUnavailable if something still does."""
    row = store.table.indexes(build)[writer.name]
    if difference(store.table, build, writer, row, mends=True):
        for refused in store.table.refused(build, writer.name):
            store.apply(build, writer, row, store.table.changes(build, list(refused), row.sequence))
        differing = difference(store.table, build, writer, row, mends=False)
        if differing:
            raise StoreUnavailable(_complaint(store, build, writer.name, differing))


def _complaint(store: DocumentStore, build: Build, name: str, differing: Difference) -> str:
    ids = [*differing.missing, *differing.outdated, *differing.incomplete, *differing.surplus]
    refused = (portion[ids[0]] for portion in store.table.refused(build, name) if ids and ids[0] in portion)
    why = differing.failure or next(refused, "it differs")
    visible = [name for name, row in store.table.indexes(build).items() if row.is_visible]
    return (
        f"the store {name!r} does not have the documents of namespace {build.name!r} ({sum(differing.counts.values())} differ, "
        f"first {ids[:1]}): {why}; the namespace is still served by {', '.join(build.manifest.stores or visible)}"
    )
