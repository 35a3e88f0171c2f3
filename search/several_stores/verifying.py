"""Comparing what stores show with the table of documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.batching import in_batches
from models.errors import BadIndex, NotConfigured, ServiceError
from search.protocol import Store
from search.several_stores.document_table import Build, DocumentTable

_AT_ONCE = 200
_LOOKUP_S = 10.0


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between one store and the table; all lists are sorted."""

    missing: Sequence[str] = ()
    """Documents that the store does not show."""
    outdated: Sequence[str] = ()
    """Documents that it shows in another revision."""
    incomplete: Sequence[str] = ()
    """Documents that it shows without some of their passages."""
    surplus: Sequence[str] = ()
    """Documents that it shows and the table does not have."""
    failure: str | None = None
    """Why the comparison failed."""

    @property
    def to_write(self) -> list[str]:
        return sorted({*self.missing, *self.outdated, *self.incomplete})

    def __bool__(self) -> bool:
        return bool(self.to_write or self.surplus or self.failure)


def difference(table: DocumentTable, build: Build, store: Store) -> Difference:
    missing: list[str] = []
    outdated: list[str] = []
    try:
        for source in table.sources(build):
            wanted, shown = table.revisions(build, source), _revisions(store, build.name, source)
            missing += wanted.keys() - shown.keys()
            outdated += [name for name in wanted.keys() & shown.keys() if wanted[name] != shown[name]]
        # Compares all sources together, because a restored table does not know sources that were indexed later.
        surplus = _revisions(store, build.name).keys() - set(table.ids(build))
        absent = {*missing}
        shown_ids = (one for one in table.passage_ids(build) if one[0] not in absent)
        incomplete = [
            document_id
            for batch in in_batches(shown_ids, _AT_ONCE)
            for document_id in _incomplete(build.name, store, batch)
        ]
    except ServiceError as error:
        return Difference(failure=str(error))
    return Difference(sorted(missing), sorted(outdated), sorted(incomplete), sorted(surplus))


def _revisions(store: Store, namespace: str, source: str | None = None) -> dict[str, str]:
    try:
        return store.revisions(namespace, source)
    except BadIndex:
        # The store lost the namespace and will be given all of it.
        return {}


def _incomplete(namespace: str, store: Store, batch: Sequence[tuple[str, list[str]]]) -> list[str]:
    asked = [passage_id for _, passage_ids in batch for passage_id in passage_ids]
    try:
        found = set(store.texts(namespace, asked, timeout_s=_LOOKUP_S))
    except NotConfigured:
        # The store holds vectors only.
        found = set(store.vectors(namespace, asked))
    return [name for name, passage_ids in batch if not found.issuperset(passage_ids)]
