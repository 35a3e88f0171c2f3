"""Writing documents: a batch is one transaction, which replaces their rows and corrects the counts of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from psycopg import sql

from models.documents import Document
from search.analysis import indexed_texts
from search.engines.postgresql import tables
from search.engines.postgresql.connection import Connection, MissingIndex, Session
from search.engines.postgresql.filter_conditions import split_facets
from search.engines.postgresql.tables import MOST_DIMENSIONS, Tables
from search.protocol import Entry, Index
from search.served_fields import served_fields

_GRAPH_TIMEOUT_S = 3_600.0
_EXACT = 24

# Each deletes rows of some documents, and tells how many there were, with how many words.
_DELETE_PASSAGES = """
    WITH gone AS (DELETE FROM {passages} WHERE did = ANY(%s) RETURNING rid, terms, words),
    lost AS (SELECT rid, unnest(terms) AS term FROM gone),
    postings AS (DELETE FROM {postings} p USING lost WHERE p.term = lost.term AND p.rid = lost.rid),
    counted AS (SELECT term, count(*) AS lost FROM lost GROUP BY term),
    terms AS (UPDATE {terms} t SET passages = passages - lost FROM counted WHERE t.term = counted.term)
    SELECT count(*), coalesce(sum(words), 0)::bigint FROM gone
"""
_DELETE_DOCUMENTS = """
    WITH gone AS (DELETE FROM {documents} WHERE did = ANY(%s) RETURNING terms, words, facets),
    counted AS (SELECT term, count(*) AS lost FROM gone, unnest(terms) AS term GROUP BY term),
    terms AS (UPDATE {terms} t SET documents = documents - lost FROM counted WHERE t.term = counted.term)
    SELECT count(*) FILTER (WHERE cardinality(facets) > 0), coalesce(sum(words), 0)::bigint FROM gone
"""
# Not ON CONFLICT, which takes a number of the identity for known words too, until none is left.
_COUNT_TERMS = """
    WITH counted AS (SELECT * FROM unnest(%s::text[], %s::int[], %s::int[]) AS c(word, passages, documents)),
    known AS (
        UPDATE {terms} t SET passages = t.passages + c.passages, documents = t.documents + c.documents
        FROM counted c WHERE t.word = c.word RETURNING t.word, t.term
    ), added AS (
        INSERT INTO {terms} (word, passages, documents)
        SELECT * FROM counted WHERE word NOT IN (SELECT word FROM known) RETURNING word, term
    )
    SELECT word, term FROM known UNION ALL SELECT word, term FROM added
"""
_SERVED = ("source_type", "published_at", "content_hash", "near_duplicate_group")
_COPY_DOCUMENTS = """
    COPY {documents} (did, document_id, revision, source_type, published_at, content_hash, near_duplicate_group,
        facets, parts, terms, counts, words, length) FROM STDIN
"""
_COPY_PASSAGES = "COPY {passages} (rid, did, passage_id, terms, counts, words, length {embedding}) FROM STDIN"
_POST = """
    INSERT INTO {postings} SELECT term, rid, count, length
    FROM {passages}, unnest(terms, counts) AS u(term, count) WHERE rid > %s ORDER BY term, rid
"""
_COUNT = """
    UPDATE chorale_engine SET passages = passages + %s, passage_words = passage_words + %s,
        documents = documents + %s, document_words = document_words + %s, last_id = %s WHERE id = %s
"""
_ENTRIES = """
    WITH portion AS (SELECT did, document_id, revision FROM {documents} WHERE did > %s ORDER BY did LIMIT 1000)
    SELECT did, document_id, NULL, revision FROM portion
    UNION ALL SELECT did, document_id, passage_id, NULL FROM {passages} JOIN portion USING (did)
"""

Terms = tuple[Document, Counter[str], Sequence[Counter[str]]]
"""A document with the counts of its own terms and those of each passage."""


class DocumentWriter:
    """Implements the writing part of `search.protocol.Engine`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, index: Index) -> None:
        """Raises NotConfigured if the database has no usable pgvector."""
        dimension = index.manifest.dimension if self._connection.endpoint.vectors else 0
        self._connection.write(lambda session: tables.create(session, index, dimension))

    def has(self, index: Index) -> bool:
        deadline = self._connection.deadline(self._connection.endpoint.timeout_s)
        with suppress(MissingIndex):
            self._connection.read(lambda session: tables.find(session, index), deadline)
            return True
        return False

    def drop(self, index: Index) -> None:
        with suppress(MissingIndex):
            self._connection.write(lambda session: tables.drop(session, index))

    def write(self, index: Index, documents: Sequence[Document], deleted: Sequence[str]) -> None:
        made = [_terms(document, index) for document in documents]
        ids = [*(document.document_id for document in documents), *deleted]
        least = self._connection.endpoint.exact_below

        def work(session: Session) -> bool:
            _replace(session, tables.find(session, index, locked=True), ids, made)
            found = tables.find(session, index)
            is_large = found.passages >= least and 0 < found.dimension <= MOST_DIMENSIONS
            return is_large and not found.has_graph

        def make_graph(session: Session) -> None:
            found = tables.find(session, index, locked=True)
            if not found.has_graph:
                session.execute(found.sql(tables.GRAPH))

        if self._connection.write(work):
            self._connection.write(make_graph, self._connection.deadline(_GRAPH_TIMEOUT_S))

    def entries(self, index: Index) -> Iterator[Entry]:
        after = -1

        def work(session: Session) -> list[Any]:
            return session.execute(tables.find(session, index).sql(_ENTRIES), (after,)).fetchall()

        while portion := self._connection.read(work, self._connection.deadline()):
            yield from (Entry(*entry) for _, *entry in portion)
            after = max(did for did, *_ in portion)


def _terms(document: Document, index: Index) -> Terms:
    if not document.passages:
        return document, Counter(), ()
    texts = indexed_texts(document, index.manifest)
    return document, Counter(texts.document.split()), [Counter(text.split()) for text in texts.passages]


def _replace(session: Session, found: Tables, ids: Sequence[str], made: Sequence[Terms]) -> None:
    """Each statement takes the rows of all documents at once."""
    known = session.execute(found.sql("SELECT did FROM {documents} WHERE document_id = ANY(%s)"), (ids,))
    gone = [did for (did,) in known]
    lost = [
        number
        for statement in (_DELETE_PASSAGES, _DELETE_DOCUMENTS)
        for number in session.execute(found.sql(statement), (gone,)).fetchall()[0]
    ]
    documents = Counter(word for _, whole, _ in made for word in whole)
    passages = Counter(word for *_, of_passages in made for counts in of_passages for word in counts)
    words = sorted(documents | passages)
    rows = (words, [passages[word] for word in words], [documents[word] for word in words])
    numbers: dict[str, int] = dict(session.execute(found.sql(_COUNT_TERMS), rows).fetchall())
    last = found.last_id + len(made)
    of_passages = list(_passage_rows(made, numbers, found))
    _copy(session, found.sql(_COPY_DOCUMENTS), _document_rows(made, numbers, found))
    embedding = ", embedding" if found.dimension else ""
    _copy(session, found.sql(_COPY_PASSAGES, embedding=embedding), of_passages)
    session.execute(found.sql(_POST), (last,))
    gained = [
        len(of_passages),
        sum(counts.total() for *_, of_passages in made for counts in of_passages),
        sum(bool(document.passages) for document, *_ in made),
        sum(whole.total() for _, whole, _ in made),
    ]
    changes = [more - less for more, less in zip(gained, lost, strict=True)]
    session.execute(_COUNT, (*changes, last + len(of_passages), found.id))


def _copy(session: Session, statement: sql.Composed, rows: Iterable[Sequence[Any]]) -> None:
    with session.cursor().copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _document_rows(made: Sequence[Terms], numbers: dict[str, int], found: Tables) -> Iterator[Sequence[Any]]:
    for did, (document, whole, _) in enumerate(made, found.last_id + 1):
        fields = served_fields(document)
        yield (
            *(did, document.document_id, document.revision),
            *(fields.get(name) for name in _SERVED),
            *(split_facets(fields["facets"]) if document.passages else ([], [])),
            *_columns(whole, numbers),
        )


def _passage_rows(made: Sequence[Terms], numbers: dict[str, int], found: Tables) -> Iterator[Sequence[Any]]:
    rid = found.last_id + len(made)
    for did, (document, _, of_passages) in enumerate(made, found.last_id + 1):
        for passage, counts in zip(document.passages, of_passages, strict=True):
            rid += 1
            row = (rid, did, passage.passage_id, *_columns(counts, numbers))
            vector = None if passage.vector is None else str(passage.vector.tolist())
            yield (*row, vector) if found.dimension else row


def _columns(counts: Counter[str], numbers: dict[str, int]) -> Sequence[Any]:
    """`terms`, `counts`, `words` and `length`."""
    words = counts.total()
    return [numbers[word] for word in counts], list(counts.values()), words, kept_length(words)


def kept_length(words: int) -> int:
    """As Lucene and tantivy keep a length in one byte: exact up to 40, then the first four binary digits of what is beyond 24."""
    beyond = max(0, words - _EXACT)
    dropped = max(0, beyond.bit_length() - 4)
    return words - beyond + (beyond >> dropped << dropped)
