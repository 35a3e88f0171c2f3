"""Comparing what stores show with the table of documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from models.errors import BadIndex, NotConfigured, ServiceError
from search.protocol import Store
from search.several_stores.document_table import Build, DocumentTable

_AT_ONCE = 200
_LOOKUP_S = 10.0


@dataclass(frozen=True, slots=True)
class Difference:
    """How one store differs from the table; all in order of their ids."""

    missing: Sequence[str] = ()
    """Documents that it does not show."""
    outdated: Sequence[str] = ()
    """Shown in another revision."""
    incomplete: Sequence[str] = ()
    """Shown without some of their passages."""
    surplus: Sequence[str] = ()
    """Shown, and not in the table."""
    failure: str | None = None
    """Why it could not be compared."""

    @property
    def to_write(self) -> list[str]:
        return sorted({*self.missing, *self.outdated, *self.incomplete})

    def __bool__(self) -> bool:
        return bool(self.to_write or self.surplus or self.failure)


def difference(table: DocumentTable, build: Build, store: Store) -> Difference:
    """Compare a store with the table."""
    missing: list[str] = []
    outdated: list[str] = []
    try:
        for source in table.sources(build):
            wanted, shown = table.revisions(build, source), _revisions(store, build.name, source)
            missing += wanted.keys() - shown.keys()
            outdated += [name for name in wanted.keys() & shown.keys() if wanted[name] != shown[name]]
        # Of whatever source: a table that was restored does not know those that were indexed since.
        surplus = _revisions(store, build.name).keys() - set(table.ids(build))
        absent = {*missing}
        incomplete = [
            document_id
            for batch in _batches(one for one in table.passage_ids(build) if one[0] not in absent)
            for document_id in _incomplete(build.name, store, batch)
        ]
    except ServiceError as error:
        return Difference(failure=str(error))
    return Difference(sorted(missing), sorted(outdated), sorted(incomplete), sorted(surplus))


def _revisions(store: Store, namespace: str, source: str | None = None) -> dict[str, str]:
    try:
        return store.revisions(namespace, source)
    except BadIndex:
        # It has not got the namespace, and will be given all of it.
        return {}


def _incomplete(namespace: str, store: Store, batch: Sequence[tuple[str, list[str]]]) -> list[str]:
    asked = [passage_id for _, passage_ids in batch for passage_id in passage_ids]
    try:
        found = set(store.texts(namespace, asked, timeout_s=_LOOKUP_S))
    except NotConfigured:
        # It holds vectors alone.
        found = set(store.vectors(namespace, asked))
    return [name for name, passage_ids in batch if not found.issuperset(passage_ids)]


def _batches(items: Iterator[tuple[str, list[str]]]) -> Iterator[list[tuple[str, list[str]]]]:
    while batch := list(islice(items, _AT_ONCE)):
        yield batch
