"""The PostgreSQL store: a batch is one transaction, which replaces documents and corrects the counts of their words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from models.declarations.engines import PostgresqlEndpoint
from models.documents import Document
from models.errors import NotConfigured
from search.analysis import IndexedTexts, indexed_texts
from search.deadline import Deadline
from search.engines.postgresql import searching, tables
from search.engines.postgresql.connection import Connection, Session
from search.engines.postgresql.tables import Tables, storable
from search.protocol import Entry, Index
from search.served_fields import HIT_FIELDS, served_fields
from search.server_store import MissingIndex, ServerStore

_T = TypeVar("_T")

_GRAPH_TIMEOUT_S = 3_600.0
_ENTRIES = """
    SELECT did, document_id, passage_id, revision
    FROM (SELECT * FROM {documents} WHERE did > {after} ORDER BY did LIMIT 1000) AS portion LEFT JOIN {passages} USING (did)
"""
_PART = "c"
"""Begins the terms that only `contains` looks for.  They are longer than an index takes."""

# Not ON CONFLICT, which takes a number of the identity for known words too, until none is left.
_NUMBERS = """
    WITH known AS (SELECT word, term FROM {terms} WHERE word = ANY({words})), added AS (
        INSERT INTO {terms} (word, passages, documents)
        SELECT word, 0, 0 FROM unnest({words}::text[]) AS word WHERE word NOT IN (SELECT word FROM known) RETURNING word, term
    ) TABLE known UNION ALL TABLE added
"""
# Deletes documents with these ids that were there before, posts the words of what came after, and corrects the counts of words
# and of the index.  ARRAY and OFFSET 0 make PostgreSQL look rows up by an index, also before it has statistics of a new table.
_EXCHANGE = """
    WITH gone AS (DELETE FROM {documents} WHERE document_id = ANY({ids}) AND did <= {before} RETURNING *), lost AS (
        DELETE FROM {passages} WHERE did = ANY(ARRAY(SELECT did FROM gone)) RETURNING *
    ), unposted AS (
        DELETE FROM {postings} WHERE ctid = ANY(ARRAY(SELECT p.ctid FROM lost, unnest(lost.terms) AS one,
            LATERAL (SELECT ctid FROM {postings} WHERE term = one AND rid = lost.rid OFFSET 0) AS p))
    ), new AS MATERIALIZED (SELECT * FROM {passages} WHERE rid > {before}), posted AS (
        INSERT INTO {postings} SELECT term, rid, count, length
        FROM new, unnest(terms, counts) AS u(term, count) ORDER BY term, rid
    ), counted AS (
        SELECT 1 AS passage, 0 AS document, terms, words FROM new
        UNION ALL SELECT 0, 1, terms, words FROM {documents} WHERE did > {before} AND cardinality(facets) > 0
        UNION ALL SELECT -1, 0, terms, words FROM lost
        UNION ALL SELECT 0, -1, terms, words FROM gone WHERE cardinality(facets) > 0
    ), changed AS (
        SELECT term, sum(passage) AS passages, sum(document) AS documents FROM counted, unnest(terms) AS term GROUP BY term
    ), updated AS (
        UPDATE {terms} AS t SET passages = t.passages + c.passages, documents = t.documents + c.documents
        FROM changed AS c WHERE t.term = c.term AND (c.passages, c.documents) <> (0, 0)
    )
    UPDATE chorale_engine SET last_id = {last_id}, (passages, passage_words, documents, document_words) = (
        SELECT passages + coalesce(sum(passage), 0), passage_words + coalesce(sum(passage * words), 0),
            documents + coalesce(sum(document), 0), document_words + coalesce(sum(document * words), 0) FROM counted
    ) WHERE id = {id} RETURNING passages
"""


class PostgresqlStore(ServerStore[Tables]):
    """Implements `search.protocol.Engine`, `Searches`, `Lists` and `ScoresText`; thread-safe.  Connects at first use."""

    product = "PostgreSQL"
    searching = searching
    _connection: Connection

    def __init__(self, url: str, endpoint: PostgresqlEndpoint) -> None:
        self._endpoint = endpoint
        self._connection = Connection(url, endpoint)

    def create(self, index: Index) -> None:
        """Raises NotConfigured if the database has no usable pgvector."""
        dimension = index.manifest.dimension if self._endpoint.vectors else 0
        self._connection.write(lambda session: tables.create(session, index, dimension))

    def check_server(self) -> None:
        def work(session: Session) -> None:
            if (version := session.info.server_version // 10_000) < tables.OLDEST_SERVER:
                why = f"is of version {version}; move the database to PostgreSQL {tables.OLDEST_SERVER} or newer"
                raise NotConfigured(f"{self._connection.server} {why}")
            if self._endpoint.vectors:
                session.execute("SAVEPOINT tried")
                tables.need_pgvector(session)
                session.execute("ROLLBACK TO tried")

        self._connection.write(work, self._endpoint.timeout_s)

    def drop(self, index: Index) -> None:
        with suppress(MissingIndex):
            self._connection.write(lambda session: tables.drop(session, index))

    def write(self, index: Index, documents: Sequence[Document], deleted: Sequence[str]) -> None:
        """A batch is one transaction.  After the batch that makes the index large, another transaction builds the graph."""
        made = [(document, indexed_texts(document, index.manifest)) for document in documents]
        ids = [*(document.document_id for document in documents), *deleted]

        def work(session: Session) -> bool:
            target = tables.find(session, index, locked=True)
            is_large = _replace(target, ids, made) >= self._endpoint.exact_below
            return is_large and 0 < target.dimension <= tables.MOST_DIMENSIONS and not target.has_graph

        def build_graph(session: Session) -> None:
            tables.find(session, index, locked=True).execute(tables.GRAPH)

        if self._connection.write(work):
            self._connection.write(build_graph, _GRAPH_TIMEOUT_S)

    def entries(self, index: Index) -> Iterator[Entry]:
        after = -1

        def work(target: Tables) -> list[Any]:
            return target.execute(_ENTRIES, after=after).fetchall()

        while portion := self.use(index, work, self._connection.deadline(self._endpoint.write_timeout_s)):
            yield from (Entry(*entry) for _, *entry in portion)
            after = max(did for did, *_ in portion)

    def use(self, index: Index, work: Callable[[Tables], _T], deadline: Deadline) -> _T:
        candidates = self._endpoint.candidates
        return self._connection.read(lambda session: work(tables.find(session, index, candidates)), deadline)


def _replace(target: Tables, ids: Sequence[str], made: Sequence[tuple[Document, IndexedTexts]]) -> int:
    """Delete the documents with these ids, and write those of `made`; returns the number of passages that there are now.  Each
    statement takes the rows of all documents at once."""
    counted = [[Counter(text.split()) for text in (texts.document, *texts.passages)] for _, texts in made]
    words = {word for document_counts in counted for counts in document_counts for word in counts}
    numbers = dict(target.execute(_NUMBERS, words=list(words)).fetchall())
    documents, passages, free = list[tuple[Any, ...]](), list[tuple[Any, ...]](), count(target.last_id + 1)
    for (document, _), (whole, *texts) in zip(made, counted, strict=True):
        did, fields = next(free), served_fields(document)
        facets = [storable(term) for term in fields["facets"]] if texts else []
        split = ([term for term in facets if term.startswith(_PART) is is_part] for is_part in (False, True))
        row = (did, document.document_id, document.revision, *map(fields.get, HIT_FIELDS[2:]), *split)
        documents.append((*row, *_columns(whole, numbers)))
        for passage, counts in zip(document.passages, texts, strict=True):
            row = (next(free), did, passage.passage_id, *_columns(counts, numbers))
            vector = None if passage.vector is None else str(passage.vector.tolist())
            passages.append((*row, vector) if target.has_vectors else row)
    for table, rows in (("documents", documents), ("passages", passages)):
        with target.session.cursor().copy(target.sql(f"COPY {{{table}}} FROM STDIN")) as copy:
            for row in rows:
                copy.write_row(row)
    [(number,)] = target.execute(_EXCHANGE, ids=ids, before=target.last_id, last_id=next(free) - 1)
    return int(number)


def _columns(counts: Counter[str], numbers: dict[str, int]) -> tuple[Any, ...]:
    """`terms`, `counts`, `words` and `length`.  Lucene and tantivy keep a length in one byte: exact up to 40, then the first four
    binary digits of what is beyond 24."""
    words, ordered = counts.total(), sorted(counts, key=numbers.__getitem__)
    beyond = max(0, words - 24)
    length = words - beyond % (1 << max(0, beyond.bit_length() - 4))
    return [numbers[word] for word in ordered], [counts[word] for word in ordered], words, length
