"""Writing documents: a batch is one transaction, which replaces their rows and corrects the counts of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from models.documents import Document, Passage
from search.analysis import indexed_texts
from search.checks import built_differently
from search.engines.postgresql import tables
from search.engines.postgresql.connection import Connection, MissingIndex, Session
from search.engines.postgresql.filter_conditions import split_facets
from search.engines.postgresql.scoring import kept_length
from search.engines.postgresql.tables import MOST_DIMENSIONS, Tables
from search.filter_terms import facets
from search.filters import filter_fields
from search.protocol import Entry, Index

_GRAPH_TIMEOUT_S = 3_600.0

# Of each statement: the rows of some documents, and what the counts of words lose with them.
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
    SELECT count(*) FILTER (WHERE facets <> '{{}}'), coalesce(sum(words), 0)::bigint FROM gone
"""
_COUNT_TERMS = """
    INSERT INTO {terms} AS t (word, passages, documents) SELECT * FROM unnest(%s::text[], %s::int[], %s::int[])
    ON CONFLICT (word) DO UPDATE SET passages = t.passages + excluded.passages, documents = t.documents + excluded.documents
    RETURNING word, term
"""
_COPY_DOCUMENTS = """
    COPY {documents} (did, document_id, revision, source_type, published_at, content_hash, near_duplicate_group,
        facets, parts, terms, counts, length, words) FROM STDIN
"""
_COPY_PASSAGES = "COPY {passages} (rid, did, passage_id, terms, counts, length, words{embedding}) FROM STDIN"
_POST = """
    INSERT INTO {postings} SELECT term, rid, count, length
    FROM {passages}, unnest(terms, counts) AS u(term, count) WHERE rid > %s ORDER BY term, rid
"""
_COUNT = """
    UPDATE chorale_engine SET passages = passages + %s, passage_words = passage_words + %s,
        documents = documents + %s, document_words = document_words + %s, last_id = %s WHERE id = %s
"""


class DocumentWriter:
    """Implements the writing part of `search.protocol.Engine`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, index: Index) -> None:
        """Raises NotConfigured if the database has no usable pgvector."""
        has_vectors = self._connection.endpoint.vectors and index.manifest.dimension > 0

        def work(session: Session) -> None:
            tables.prepare(session)
            try:
                found = tables.find(session, index)
            except MissingIndex:
                tables.create(session, index, index.manifest.dimension if has_vectors else 0)
                return
            if (found.dimension > 0) != has_vectors:
                raise built_differently(
                    index.namespace, [f"vectors is {found.dimension > 0}, asked for {has_vectors}"]
                )

        self._connection.write(work)

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

        def work(session: Session) -> bool:
            found = tables.find(session, index, locked=True)
            _replace(session, found, ids, made)
            return found.dimension in range(1, MOST_DIMENSIONS + 1) and not found.has_graph

        if self._connection.write(work):
            self._make_graph(index)

    def entries(self, index: Index) -> Iterator[Entry]:
        def work(session: Session) -> list[Any]:
            found = tables.find(session, index)
            documents = "SELECT document_id, NULL, revision FROM {documents}"
            passages = "SELECT document_id, passage_id, NULL FROM {passages} JOIN {documents} USING (did)"
            return session.execute(found.sql(f"{documents} UNION ALL {passages}")).fetchall()

        for row in self._connection.read(work, self._connection.deadline()):
            yield Entry(*row)

    def _make_graph(self, index: Index) -> None:
        """Once the namespace is so large that comparing every vector takes long."""
        least = self._connection.endpoint.exact_below

        def work(session: Session) -> None:
            found = tables.find(session, index, locked=True)
            if found.passages >= least and not found.has_graph:
                tables.create_graph(session, found)

        self._connection.write(work, self._connection.deadline(_GRAPH_TIMEOUT_S))


@dataclass(frozen=True, slots=True)
class _Terms:
    """A document with its own terms and those of its passages."""

    document: Document
    whole: Counter[str]
    passages: Sequence[tuple[Passage, Counter[str]]]


def _terms(document: Document, index: Index) -> _Terms:
    if not document.passages:
        return _Terms(document, Counter(), ())
    texts = indexed_texts(document, index.manifest)
    counts = [Counter(text.split()) for text in texts.passages]
    return _Terms(
        document, Counter(texts.document.split()), tuple(zip(document.passages, counts, strict=True))
    )


def _replace(session: Session, found: Tables, ids: Sequence[str], made: Sequence[_Terms]) -> None:
    """Lets each statement take the rows of all documents at once."""
    known = session.execute(found.sql("SELECT did FROM {documents} WHERE document_id = ANY(%s)"), (ids,))
    gone = [did for (did,) in known]
    lost: list[int] = []
    for statement in (_DELETE_PASSAGES, _DELETE_DOCUMENTS):
        lost += session.execute(found.sql(statement), (gone,)).fetchone() or (0, 0)
    passages: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    for one in made:
        documents.update(one.whole.keys())
        for _, counts in one.passages:
            passages.update(counts.keys())
    words = sorted(documents | passages)
    rows = (words, [passages[word] for word in words], [documents[word] for word in words])
    numbers: dict[str, int] = dict(session.execute(found.sql(_COUNT_TERMS), rows).fetchall())
    first = found.last_id + len(made)
    _copy(session, found, _COPY_DOCUMENTS, _document_rows(made, numbers, found.last_id))
    _copy(session, found, _COPY_PASSAGES, _passage_rows(made, numbers, found))
    session.execute(found.sql(_POST), (first,))
    gained = [
        sum(len(one.passages) for one in made),
        sum(counts.total() for one in made for _, counts in one.passages),
        sum(bool(one.passages) for one in made),
        sum(one.whole.total() for one in made),
    ]
    changes = [more - less for more, less in zip(gained, lost, strict=True)]
    session.execute(_COUNT, (*changes, first + gained[0], found.id))


def _copy(session: Session, found: Tables, statement: str, rows: Iterator[Sequence[Any]]) -> None:
    embedding = sql.SQL(", embedding" if found.dimension else "")
    with session.cursor().copy(found.sql(statement, embedding=embedding)) as copy:
        for row in rows:
            copy.write_row(row)


def _document_rows(made: Sequence[_Terms], numbers: dict[str, int], last_id: int) -> Iterator[Sequence[Any]]:
    for did, one in enumerate(made, last_id + 1):
        document = one.document
        fields = filter_fields(document.document_id, document.source, document.metadata)
        yield (
            did,
            document.document_id,
            document.revision,
            _word(document.metadata.get("source_type")),
            _word(document.metadata.get("published_at")),
            document.content_hash or None,
            document.near_duplicate_group,
            *(split_facets(facets(fields)) if one.passages else ([], [])),
            *_columns(one.whole, numbers),
        )


def _passage_rows(made: Sequence[_Terms], numbers: dict[str, int], found: Tables) -> Iterator[Sequence[Any]]:
    rid = found.last_id + len(made)
    for did, one in enumerate(made, found.last_id + 1):
        for passage, counts in one.passages:
            rid += 1
            vector = [None if passage.vector is None else str(passage.vector.tolist())]
            row = (rid, did, passage.passage_id, *_columns(counts, numbers))
            yield (*row, *vector) if found.dimension else row


def _columns(counts: Counter[str], numbers: dict[str, int]) -> tuple[list[int], list[int], int, int]:
    """`terms`, `counts`, `length` and `words`."""
    total = counts.total()
    return [numbers[word] for word in counts], list(counts.values()), kept_length(total), total


def _word(value: object) -> str | None:
    return None if value is None else str(value)
