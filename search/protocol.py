"""What every store promises; `tests/contracts/store.py` is the suite that each one inherits.

A store searches a *list* of questions at once.  It is given values (paths, addresses, limits) and knows no
settings, no broker and no clock but its own time limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from models.documents import Document, Manifest, Matrix, NamespaceState, PassageText, Vector
from models.hits import Ranking

if TYPE_CHECKING:
    from pathlib import Path

    from search.near_duplicate_rows import NearDuplicateRows

Filters = Mapping[str, Any]
"""`{field: value | [values] | {gt, gte, lt, lte, exists, not, contains}}`, as on the wire; all must hold."""


class Searches(Protocol):
    """The reading side, which the branch tasks use.

    All methods raise `models.errors.StageFailure` subclasses only: `BadIndex` for an unknown namespace or a
    damaged index, `StoreUnavailable`, `StoreTimeout`, `Unauthorised`, `InvalidAnswer`.
    """

    def search_text(
        self,
        namespace: str,
        texts: Sequence[str],
        *,
        depth: int,
        filters: Filters | None = None,
        exclude_ids: Sequence[str] = (),
        timeout_s: float = 2.0,
    ) -> list[Ranking]:
        """BM25: a ranking of passages for each text, best first, ties by passage id.

        The passages of at least `depth` different documents are there, or all that match.  A text without
        any term (empty, stop words only) has no hits.  A filter on a field that no document has matches
        nothing and is named in the ranking's warnings.
        """
        ...

    def search_vectors(
        self,
        namespace: str,
        vectors: Matrix,
        *,
        depth: int,
        filters: Filters | None = None,
        exclude_ids: Sequence[str] = (),
        timeout_s: float = 2.0,
    ) -> list[Ranking]:
        """Cosine similarity of normalised vectors, shape (questions, d): the same promises as `search_text`.

        Raises `InvalidAnswer` naming both lengths if d is not the namespace's dimension.
        """
        ...

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        """Stored vectors by passage id; unknown ids are left out."""
        ...

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        """Titles and texts by passage id; unknown ids are left out."""
        ...

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int | None:
        """The corpus generation that a search beginning now would see; catches up first where it can.

        None where the source does not say when it changes: no answer it had a part in is kept in the cache.
        """
        ...

    def warm(self, namespace: str | None = None) -> None:
        """Open and load what searching needs, so that the first request is not the slow one."""
        ...


@runtime_checkable
class Lists(Protocol):
    """Stores that can list documents by their metadata, which branches of the kind `document` need."""

    def list_documents(
        self,
        namespace: str,
        *,
        order_by: str,
        descending: bool,
        depth: int,
        filters: Filters | None = None,
        exclude_ids: Sequence[str] = (),
        timeout_s: float = 2.0,
    ) -> Ranking:
        """The first passage of each document that matches, in the order of a metadata field; scores are 0.

        Numbers come before dates, dates before other texts, each in its own order; a list counts by its element
        that comes first.  Documents without the field come last; ties by document id.
        """
        ...


@runtime_checkable
class Fuses(Protocol):
    """Stores that fuse text and vector themselves, which branches of the kind `hybrid` need."""

    def search_hybrid(
        self,
        namespace: str,
        texts: Sequence[str],
        vectors: Matrix,
        *,
        alpha: float,
        fusion: Literal["relative", "ranked"],
        depth: int,
        filters: Filters | None = None,
        exclude_ids: Sequence[str] = (),
        timeout_s: float = 2.0,
    ) -> list[Ranking]:
        """A ranking for each text and its vector; `alpha` is the weight of the vectors, the rest is BM25's."""
        ...


class Writes(Protocol):
    """The writing side, which the index worker alone uses: one writer a namespace."""

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        """Make the namespace if there is none; raises ManifestMismatch if it was built differently."""
        ...

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        """Replace each document whole, all or nothing; returns the new generation, which readers can see.

        Idempotent.  Raises WriterBusy, BadIndex (unknown namespace), InvalidAnswer (a vector's length), and
        PartlyWritten where a server refused some documents: each of them is as it was, or partly new until
        it is handed in again, and the rest of the batch is written.
        """
        ...

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        """Delete documents; returns how many there were."""
        ...

    def drop(self, namespace: str) -> bool:
        """Delete the namespace with everything in it; False if there was none."""
        ...

    def namespaces(self) -> list[NamespaceState]: ...

    def revisions(self, namespace: str, source: str | None = None) -> dict[str, str]:
        """Revision by document id of everything indexed from `source`, or from any: what to skip, what to prune."""
        ...


class Holds(Writes, Protocol):
    """What documents are indexed into, one store or several as one: it says by name what it has."""

    def held(
        self, namespace: str, document_ids: Iterable[str], *, source: str | None = None
    ) -> dict[str, str]:
        """Revision by id of those of these documents that are there; with `source`, of those indexed from it."""
        ...

    def notes(self, namespace: str) -> AbstractContextManager[NearDuplicateRows]:
        """The groups of near-duplicates in one transaction of the documents' database; nobody else writes the namespace
        meanwhile."""
        ...

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int: ...


class Store(Searches, Lists, Writes, Protocol):
    """A document index: Elasticsearch, Weaviate, the embedded one."""

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int: ...

    def close(self) -> None: ...


class WritingStore(Holds, Protocol):
    """What an installation's documents are indexed into: an embedded store, or all its stores as one."""

    def exclusive(self, namespace: str) -> AbstractContextManager[None]:
        """Hold a namespace that exists for several writes in a row; raises WriterBusy where another process does."""
        ...

    def raise_generation(self, namespace: str, least: int) -> None:
        """Let the generation be no less than `least`, which readers were told."""
        ...

    def warm(self, namespace: str | None = None) -> None: ...

    def close(self) -> None: ...


class Begun(Holds, Protocol):
    """A namespace in the making beside the one that is searched, written like a store."""

    def finish(self) -> object:
        """Put it in that one's place."""
        ...


@runtime_checkable
class BuildsBeside(Protocol):
    """Stores that make a namespace anew while the old one is searched."""

    def rebuilding(self, namespace: str, manifest: Manifest) -> Begun: ...


@runtime_checkable
class Settles(Protocol):
    """Several stores as one, some of which may be behind."""

    def settle(self, namespace: str) -> dict[str, str]:
        """Write again what not every store shows yet; why documents still are not everywhere, by their ids."""
        ...


@runtime_checkable
class MakesRoom(Protocol):
    """Stores in files, which may be damaged."""

    def make_room(self) -> Path | None:
        """Let a new corpus be made where the old one cannot be read or is gone; where a damaged file is now."""
        ...


@runtime_checkable
class Rebuilds(Protocol):
    """Servers that build a namespace anew of given documents, beside running searches."""

    def rebuild(self, namespace: str, manifest: Manifest, documents: Iterable[Document]) -> int:
        """Returns the new generation; raises PartlyWritten."""
        ...


@runtime_checkable
class RaisesGeneration(Protocol):
    """Stores whose generation can be set, so that all of several say the same."""

    def raise_generation(self, namespace: str, least: int) -> object: ...


@runtime_checkable
class Deactivates(Protocol):
    """Stores that close a namespace until it is asked again."""

    def deactivate(self, namespace: str) -> object: ...
