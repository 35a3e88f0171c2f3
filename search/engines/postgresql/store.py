"""The PostgreSQL store: a batch is one transaction, which replaces documents and corrects the counts of their words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from psycopg import sql

from models.declarations.engines import PostgresqlEndpoint
from models.documents import Document
from search.analysis import IndexedTexts, indexed_texts
from search.deadline import Deadline
from search.engines.postgresql import searching, tables
from search.engines.postgresql.connection import Connection, Session
from search.engines.postgresql.tables import Tables, storable
from search.protocol import Entry, Index
from search.served_fields import served_fields
from search.server_store import MissingIndex, ServerStore

_T = TypeVar("_T")

_GRAPH_TIMEOUT_S = 3_600.0
_ENTRIES = """
    SELECT did, document_id, passage_id, revision FROM (
        SELECT * FROM {documents} WHERE did > {after} ORDER BY did LIMIT 1000
    ) AS portion LEFT JOIN {passages} USING (did)
"""
_PART = "c"
"""Begins the terms that only `contains` looks for.  They are longer than an index takes."""

# Not ON CONFLICT, which takes a number of the identity for known words too, until none is left.
_NUMBERS = """
    WITH known AS (SELECT word, term FROM {terms} WHERE word = ANY({words})), added AS (
        INSERT INTO {terms} (word, passages, documents)
        SELECT word, 0, 0 FROM unnest({words}::text[]) AS word WHERE word NOT IN (SELECT word FROM known) RETURNING word, term
    )
    TABLE known UNION ALL TABLE added
"""
# Adds the rows of some documents to the counts of their words and of the index, or takes them off.
_COUNT = """
    WITH counted AS (
        SELECT 1 AS passage, 0 AS document, terms, words FROM {passages} WHERE did = ANY({dids})
        UNION ALL SELECT 0, 1, terms, words FROM {documents} WHERE did = ANY({dids}) AND cardinality(facets) > 0
    ), changed AS (
        SELECT term, sum(passage) AS passages, sum(document) AS documents FROM counted, unnest(terms) AS term GROUP BY term
    ), updated AS (
        UPDATE {terms} AS t SET passages = t.passages {sign} c.passages, documents = t.documents {sign} c.documents
        FROM changed AS c WHERE t.term = c.term
    )
    UPDATE chorale_engine SET last_id = {last_id}, (passages, passage_words, documents, document_words) = (
        SELECT passages {sign} coalesce(sum(passage), 0), passage_words {sign} coalesce(sum(passage * words), 0),
            documents {sign} coalesce(sum(document), 0), document_words {sign} coalesce(sum(document * words), 0) FROM counted
    ) WHERE id = {id}
"""
_DELETE = """
    DELETE FROM {postings} AS p USING {passages} AS gone, unnest(gone.terms) AS lost
    WHERE gone.did = ANY({dids}) AND p.term = lost AND p.rid = gone.rid;
    DELETE FROM {passages} WHERE did = ANY({dids});
    DELETE FROM {documents} WHERE did = ANY({dids})
"""
_SERVED = ("source_type", "published_at", "content_hash", "near_duplicate_group")
_COPY_DOCUMENTS = """
    COPY {documents} (did, document_id, revision, source_type, published_at, content_hash, near_duplicate_group,
        facets, parts, terms, counts, words, length) FROM STDIN
"""
_COPY_PASSAGES = "COPY {passages} (rid, did, passage_id, terms, counts, words, length {embedding}) FROM STDIN"
_POST = """
    INSERT INTO {postings} SELECT term, rid, count, length
    FROM {passages}, unnest(terms, counts) AS u(term, count) WHERE rid > {last_id} ORDER BY term, rid
"""


class PostgresqlStore(ServerStore[Tables]):
    """Implements `search.protocol.Engine`, `Searches`, `Lists` and `ScoresText`; thread-safe.  Connects at first use.

    Searches by vectors are exact below `exact_below` passages, and approximate (HNSW) from there on.
    """

    product = "PostgreSQL"
    searching = searching
    _connection: Connection

    def __init__(self, url: str, endpoint: PostgresqlEndpoint) -> None:
        """Raises NotConfigured for an address that is not one of PostgreSQL."""
        self._endpoint = endpoint
        self._connection = Connection(url, endpoint)

    def create(self, index: Index) -> None:
        """Raises NotConfigured if the database has no usable pgvector."""
        dimension = index.manifest.dimension if self._endpoint.vectors else 0
        self._connection.write(lambda session: tables.create(session, index, dimension))

    def has(self, index: Index) -> bool:
        with suppress(MissingIndex):
            return self.use(index, lambda _: True, self._connection.deadline())
        return False

    def drop(self, index: Index) -> None:
        with suppress(MissingIndex):
            self._connection.write(lambda session: tables.drop(session, index))

    def write(self, index: Index, documents: Sequence[Document], deleted: Sequence[str]) -> None:
        """A batch is one transaction.  After the batch that makes the index large, another transaction builds the graph."""
        made = [(document, indexed_texts(document, index.manifest)) for document in documents]
        ids = [*(document.document_id for document in documents), *deleted]

        def work(session: Session) -> bool:
            _replace(tables.find(session, index, locked=True), ids, made)
            found = tables.find(session, index)
            is_large = found.passages >= self._endpoint.exact_below
            return is_large and 0 < found.dimension <= tables.MOST_DIMENSIONS and not found.has_graph

        def make_graph(session: Session) -> None:
            tables.find(session, index, locked=True).execute(tables.GRAPH)

        if self._connection.write(work):
            self._connection.write(make_graph, _GRAPH_TIMEOUT_S)

    def entries(self, index: Index) -> Iterator[Entry]:
        after = -1

        def work(found: Tables) -> list[Any]:
            return found.execute(_ENTRIES, after=after).fetchall()

        while portion := self.use(index, work, self._connection.deadline(self._endpoint.write_timeout_s)):
            yield from (Entry(*entry) for _, *entry in portion)
            after = max(did for did, *_ in portion)

    def use(self, index: Index, work: Callable[[Tables], _T], deadline: Deadline) -> _T:
        def ask(session: Session) -> _T:
            return work(tables.find(session, index, candidates=self._endpoint.candidates))

        return self._connection.read(ask, deadline)


def _replace(found: Tables, ids: Sequence[str], made: Sequence[tuple[Document, IndexedTexts]]) -> None:
    """Delete the documents with these ids, and write those of `made`.  Each statement takes the rows of all documents at once."""
    known = found.execute("SELECT did FROM {documents} WHERE document_id = ANY({ids})", ids=ids)
    if gone := [did for (did,) in known]:
        found.execute(_COUNT, sign=sql.SQL("-"), dids=gone, last_id=found.last_id)
        found.execute(_DELETE, dids=gone)
    counted = [[Counter(text.split()) for text in (texts.document, *texts.passages)] for _, texts in made]
    words = {word for of_document in counted for counts in of_document for word in counts}
    numbers = dict(found.execute(_NUMBERS, words=list(words)).fetchall())
    documents: list[tuple[Any, ...]] = []
    passages: list[tuple[Any, ...]] = []
    free = count(found.last_id + 1)
    for (document, _), (whole, *texts) in zip(made, counted, strict=True):
        did, fields = next(free), served_fields(document)
        served = [fields.get(name) for name in _SERVED]
        facets = [storable(term) for term in fields["facets"]] if texts else []
        indexed = [term for term in facets if not term.startswith(_PART)]
        parts = [term for term in facets if term.startswith(_PART)]
        columns = _columns(whole, numbers)
        documents.append((did, document.document_id, document.revision, *served, indexed, parts, *columns))
        for passage, counts in zip(document.passages, texts, strict=True):
            row = (next(free), did, passage.passage_id, *_columns(counts, numbers))
            vector = None if passage.vector is None else str(passage.vector.tolist())
            passages.append((*row, vector) if found.has_vectors else row)
    embedding = sql.SQL(", embedding" if found.has_vectors else "")
    for statement, rows in ((_COPY_DOCUMENTS, documents), (_COPY_PASSAGES, passages)):
        with found.session.cursor().copy(found.sql(statement, embedding=embedding)) as copy:
            for row in rows:
                copy.write_row(row)
    found.execute(_POST, last_id=found.last_id)
    dids = [did for did, *_ in documents]
    found.execute(_COUNT, sign=sql.SQL("+"), dids=dids, last_id=next(free) - 1)


def _columns(counts: Counter[str], numbers: dict[str, int]) -> tuple[Any, ...]:
    """`terms`, `counts`, `words` and `length`."""
    words, ordered = counts.total(), sorted(counts, key=numbers.__getitem__)
    return [numbers[word] for word in ordered], [counts[word] for word in ordered], words, kept_length(words)


def kept_length(words: int) -> int:
    """As Lucene and tantivy keep a length in one byte: exact up to 40, then the first four binary digits of what is beyond 24."""
    beyond = max(0, words - 24)
    dropped = max(0, beyond.bit_length() - 4)
    return words - beyond + (beyond >> dropped << dropped)
