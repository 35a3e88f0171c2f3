"""Comparing what the indexes of stores hold with the documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.errors import BadIndex, ServiceError
from search.documents.document_table import Build, DocumentTable
from search.documents.index_rows import IndexRow
from search.protocol import Engine, Entry


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between one store and the documents; all lists are sorted."""

    missing: Sequence[str] = ()
    """Documents that the store does not show."""
    outdated: Sequence[str] = ()
    """Documents that it shows in another revision."""
    incomplete: Sequence[str] = ()
    """Documents that it shows without some of their passages."""
    surplus: Sequence[str] = ()
    """Documents that it shows and the database does not have."""
    failure: str | None = None
    """Why the comparison failed."""

    @property
    def to_write(self) -> list[str]:
        return sorted({*self.missing, *self.outdated, *self.incomplete})

    def __bool__(self) -> bool:
        return bool(self.to_write or self.surplus or self.failure)


def difference(table: DocumentTable, build: Build, store: Engine, row: IndexRow | None) -> Difference:
    """`row`: the store's index; None if it has none."""
    expected, passages = _by_document(table.entries(build))
    try:
        visible, shown_passages = _by_document(store.entries(row.index) if row else ())
    except BadIndex:
        # The store has lost the index, so every document is missing.
        visible, shown_passages = {}, {}
    except ServiceError as error:
        return Difference(failure=str(error))
    common = expected.keys() & visible.keys()
    return Difference(
        sorted(expected.keys() - visible.keys()),
        sorted(name for name in common if expected[name] != visible[name]),
        sorted(name for name in common if passages.get(name, set()) - shown_passages.get(name, set())),
        sorted({*visible, *shown_passages} - expected.keys()),
    )


def _by_document(entries: Iterable[Entry]) -> tuple[dict[str, str], dict[str, set[str]]]:
    """The revision and the passages of each document."""
    revisions: dict[str, str] = {}
    passages = defaultdict[str, set[str]](set)
    for entry in entries:
        if entry.revision is not None:
            revisions[entry.document_id] = entry.revision
        if entry.passage_id is not None:
            passages[entry.document_id].add(entry.passage_id)
    return revisions, passages
