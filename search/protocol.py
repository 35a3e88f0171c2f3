"""The promises of every store; each store's tests inherit the contract suite `tests/contracts/store.py`.

A store answers a *list* of questions in one call.  It receives values (paths, addresses, limits) and must not know
settings, the broker, or any time limit but the one of the call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from models.documents import Document, Manifest, Matrix, PassageText, Vector
from models.hits import Ranking

Filters = Mapping[str, Any]
"""`{field: value | [values] | {gt, gte, lt, lte, exists, not, contains, all}}`, as on the wire; all must hold."""


@dataclass(frozen=True, slots=True)
class Search:
    """The options that all questions of one call share."""

    depth: int
    """Each ranking has the passages of at least this many different documents, or all that match."""
    filters: Filters | None = None
    exclude_ids: Sequence[str] = ()
    """Ids of documents that must not be hits."""
    timeout_s: float = 2.0
    generation: int | None = None
    """What the store's `generation` returned to the caller a moment ago: a store that has it loaded need not read it again."""
    only_ids: Sequence[str] = ()
    """Ids of the documents that alone may be hits; empty: all may."""
    forced_fields: Collection[str] = ()
    """Fields of `filters` that a key forces: the store must not leave these to others."""
    embedders: Collection[str] = ()
    """The fingerprints of the models whose vectors may be compared with those of the questions; empty: any."""


class Entry(NamedTuple):
    """What an engine holds: a passage, or the record that a document is there in its revision; or both in one."""

    document_id: str
    passage_id: str | None
    revision: str | None


@dataclass(frozen=True, slots=True)
class Index:
    """What a store has made of one build of a namespace."""

    namespace: str
    namespace_id: int
    """Of the build, in the documents' database."""
    name: str
    """In the store: `<namespace>.v<number>`, which is never used again."""
    manifest: Manifest


class Searches(Protocol):
    """The reading side, which branches use.

    All methods raise subclasses of `models.errors.StageFailure` only: `BadIndex` for an unknown namespace or a
    damaged index, `StoreUnavailable`, `StoreTimeout`, `Unauthorised`, `InvalidAnswer`.
    """

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        """BM25: a ranking of passages for each text, best first; equal scores are ordered by passage id.

        A text without any term (empty, stop words only) has no hits.  A filter on a field that no document has
        matches nothing; the ranking's warnings name the field.
        """
        ...

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        """Cosine similarity of normalised vectors, shape (questions, d); otherwise like `search_text`.

        Raises `InvalidAnswer` naming both lengths if d is not the namespace's dimension.
        """
        ...

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        """Stored vectors by passage id, without unknown ids."""
        ...

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        """Titles and texts by passage id, without unknown ids."""
        ...

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int | None:
        """The corpus generation that a search starting now would see; the store catches up first where it can.

        None if the source does not tell when it changes.  Answers that used such a source are never cached.
        """
        ...

    def warm(self, namespace: str | None = None) -> None:
        """Open and load everything that searching needs, so that the first request is not slow."""
        ...


@runtime_checkable
class Described(Protocol):
    """Stores that know how a namespace was built."""

    def manifest(self, namespace: str, *, timeout_s: float, generation: int | None = None) -> Manifest:
        """As of `generation`, which `generation()` returned a moment ago; raises BadIndex."""
        ...


@runtime_checkable
class TakesVectors(Protocol):
    """Sources that may be declared with the vector of a question in place of its text."""

    @property
    def takes_vectors(self) -> bool:
        """Whether `search_vectors` searches the source, and `search_text` raises NotConfigured; else the other way round."""
        ...


@runtime_checkable
class Lists(Protocol):
    """Stores that can list documents by their metadata; branches of the kind `document` need one."""

    def list_documents(self, namespace: str, search: Search, *, order_by: str, descending: bool) -> Ranking:
        """The first passage of each matching document, in the order of a metadata field; scores are 0.

        Numbers come before dates, dates before other texts, each in its own order.  A list counts by the element
        that comes first in that order.  Documents without the field come last.  Ties are ordered by document id.
        """
        ...


@runtime_checkable
class Fuses(Protocol):
    """Stores that fuse text and vector search themselves; branches of the kind `hybrid` need one."""

    def search_hybrid(
        self,
        namespace: str,
        texts: Sequence[str],
        vectors: Matrix,
        search: Search,
        *,
        alpha: float,
        fusion: Literal["relative", "ranked"],
    ) -> list[Ranking]:
        """A ranking for each text and its vector; the vectors have the weight `alpha`, BM25 has 1 - alpha."""
        ...


@runtime_checkable
class ScoresText(Protocol):
    """Stores that can compute the BM25 score of given passages."""

    def score_text(
        self,
        namespace: str,
        texts: Sequence[str],
        passage_ids: Sequence[Sequence[str]],
        *,
        timeout_s: float = 1.0,
    ) -> list[dict[str, float]]:
        """For each text the scores that `search_text` would give its `passage_ids`, without those that match no term."""
        ...


@runtime_checkable
class RunsCypher(Protocol):
    """Stores that run Cypher; branches of the kind `graph` need one."""

    def names_in(self, namespace: str, text: str, *, timeout_s: float) -> list[str]:
        """The names of the graph's nodes that are words of the text, in any case.  Empty for a store that knows no names."""
        ...

    def search_cypher(
        self,
        namespace: str,
        statement: str,
        values: Sequence[Mapping[str, Any]],
        search: Search,
        *,
        score: str | None = None,
    ) -> list[Ranking]:
        """A ranking for each set of values of the parameters, from rows with a column `id`.

        The store gives the parameters `namespace` and `limit`.  The rows rank in the statement's order, or by the column `score`,
        highest first.  Raises NotConfigured for a wrong statement, with line and column.
        """
        ...


@runtime_checkable
class ChecksServer(Protocol):
    """Engines that know what their server lacks before documents are written."""

    def check_server(self) -> None:
        """Raises NotConfigured; changes nothing."""
        ...


class Engine(Protocol):
    """A derived index: it takes documents from the documents' database, and answers nothing but searches."""

    def create(self, index: Index) -> object:
        """Create an empty index; does nothing if it is there.  Raises ManifestMismatch if it was declared differently."""
        ...

    def has(self, index: Index) -> bool:
        """Whether the index is there and can be read."""
        ...

    def write(self, index: Index, documents: Sequence[Document], deleted: Sequence[str]) -> object:
        """Replace each document whole and delete those ids, and make it visible; raises PartlyWritten if some were refused.

        Idempotent.  The documents are checked (`search.checks`), and each occurs once.
        """
        ...

    def drop(self, index: Index) -> object:
        """Does nothing if the index is not there."""
        ...

    def entries(self, index: Index) -> Iterable[Entry]:
        """Everything that the index has, in any order."""
        ...

    def warm(self, namespace: str | None = None) -> None: ...

    def close(self) -> None: ...
