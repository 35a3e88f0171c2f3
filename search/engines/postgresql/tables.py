"""The tables of an index, and the catalogue of all indexes.

An index has documents, passages, terms and postings.  A document and a passage also have their terms as arrays, in the order of their
numbers: by these a passage's postings are deleted, and a whole document is scored without postings of its own.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from psycopg import Cursor, errors, sql

from models.errors import NotConfigured
from search.checks import built_differently
from search.engines.postgresql.connection import Session
from search.protocol import Index
from search.server_store import IndexCall, MissingIndex

FORMAT = 2
"""Version of this layout; an index of another one is not there."""
OLDEST_SERVER = 16
MOST_DIMENSIONS = 2_000
"""pgvector's graph takes no longer vectors; these are always compared one by one."""

# Without the lock, `IF NOT EXISTS` fails when two processes begin together.
_CATALOGUE = """
    SELECT pg_advisory_xact_lock(5471062290385);
    CREATE TABLE IF NOT EXISTS chorale_engine (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL, format int NOT NULL,
        dimension int NOT NULL, passages int NOT NULL DEFAULT 0, passage_words bigint NOT NULL DEFAULT 0,
        documents int NOT NULL DEFAULT 0, document_words bigint NOT NULL DEFAULT 0, last_id int NOT NULL DEFAULT 0,
        UNIQUE (name, format)
    )
"""
# With the usual target of 2 kB a vector would be stored elsewhere, and a scan would fetch each by itself.
_TABLES = """
    CREATE TABLE {documents} (
        did int PRIMARY KEY, document_id text COLLATE "C" NOT NULL, revision text, source_type text, published_at text,
        content_hash text, near_duplicate_group text, facets text[] NOT NULL, parts text[] NOT NULL,
        terms int[] NOT NULL, counts int[] NOT NULL, words int NOT NULL, length int NOT NULL
    );
    CREATE INDEX ON {documents} USING hash (document_id);
    CREATE INDEX ON {documents} USING gin (facets) WITH (fastupdate = off);
    CREATE TABLE {passages} (
        rid int PRIMARY KEY, did int NOT NULL, passage_id text COLLATE "C" NOT NULL,
        terms int[] NOT NULL, counts int[] NOT NULL, words int NOT NULL, length int NOT NULL {embedding}
    ) WITH (toast_tuple_target = 8160);
    CREATE INDEX ON {passages} (did);
    CREATE INDEX ON {passages} USING hash (passage_id);
    CREATE TABLE {terms} (
        term int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, word text COLLATE "C" NOT NULL UNIQUE,
        passages int NOT NULL, documents int NOT NULL
    ) WITH (fillfactor = 80);
    CREATE TABLE {postings} (term int NOT NULL, rid int NOT NULL, count int NOT NULL, length int NOT NULL);
    CREATE INDEX ON {postings} (term, rid) INCLUDE (count, length)
"""
GRAPH = """
    CREATE INDEX IF NOT EXISTS {graph} ON {passages}
    USING hnsw (embedding vector_ip_ops) WITH (m = 16, ef_construction = 64)
"""
_INDEX_ROW = """
    SELECT id, dimension, last_id, to_regclass('chorale_engine_' || id || '_graph') IS NOT NULL
    FROM chorale_engine WHERE name = %s AND format = %s AND to_regclass('chorale_engine_' || id || '_passages') IS NOT NULL
"""
_DROP = "DROP TABLE IF EXISTS {postings}, {terms}, {passages}, {documents}"
_KINDS = ("documents", "passages", "terms", "postings", "graph")


@dataclass(frozen=True, slots=True)
class Tables(IndexCall):
    """An index as a transaction sees it."""

    session: Session
    candidates: int
    """The least number of candidates that a search by vectors has in the graph."""
    id: int
    dimension: int = 0
    """0: without vectors."""
    last_id: int = 0
    """The highest number that a document or passage has had."""
    has_graph: bool = False

    def sql(self, statement: str, **parts: Any) -> sql.Composed:
        """The statement with the tables' names in the places of `{passages}` and so on, and with `parts`: SQL, or values."""
        names = {kind: sql.Identifier(f"chorale_engine_{self.id}_{kind}") for kind in _KINDS}
        return sql.SQL(statement).format(id=self.id, **names, **parts)

    def execute(self, statement: str, **parts: Any) -> Cursor[Any]:
        return self.session.execute(self.sql(statement, **parts))


def storable(text: str) -> str:
    """The text without U+0000, which PostgreSQL refuses."""
    return text.replace("\0", "\ufffd")


def find(session: Session, index: Index, candidates: int = 0, *, locked: bool = False) -> Tables:
    """Raises MissingIndex.  `locked`: until the transaction ends, no other one writes the index."""
    statement = (_INDEX_ROW + " FOR UPDATE" * locked).encode()
    row = session.execute(statement, (index.name, FORMAT)).fetchone()
    if row is None:
        raise MissingIndex(f"PostgreSQL has no index {index.name}")
    return Tables(index.manifest, row[1] > 0, session, candidates, *row)


def create(session: Session, index: Index, dimension: int) -> None:
    """Raises ManifestMismatch if the index is there with other vectors, and NotConfigured if these need a usable pgvector."""
    session.execute(_CATALOGUE)
    with suppress(MissingIndex):
        if (stored := find(session, index).dimension) == dimension:
            return
        why = f"its vectors have {stored} numbers, asked for {dimension}"
        raise built_differently(index.namespace, [why])
    drop(session, index)  # what is left of a lost index would refuse its name
    if dimension:
        need_pgvector(session)
    insert = "INSERT INTO chorale_engine (name, format, dimension) VALUES (%s, %s, %s) RETURNING id"
    [(number,)] = session.execute(insert, (index.name, FORMAT, dimension))
    embedding = sql.SQL(f", embedding vector({dimension})" if dimension else "")
    Tables(index.manifest, dimension > 0, session, 0, number).execute(_TABLES, embedding=embedding)


def drop(session: Session, index: Index) -> None:
    delete = "DELETE FROM chorale_engine WHERE name = %s RETURNING id"
    for (number,) in session.execute(delete, (index.name,)).fetchall():
        Tables(index.manifest, False, session, 0, number).execute(_DROP)


def need_pgvector(session: Session) -> None:
    """Creates the extension if the database lacks it.  Raises NotConfigured if that fails, or if the extension is too old."""
    installed = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    try:
        # A replica refuses the statement, also where it would do nothing.
        if not session.execute(installed).fetchall():
            session.execute("CREATE EXTENSION IF NOT EXISTS vector")
        [(version,)] = session.execute(installed)
        if tuple(map(int, version.split(".")[:2])) >= (0, 8):
            return
        why = f"the database has {version}"
    except (errors.InsufficientPrivilege, errors.FeatureNotSupported, errors.UndefinedFile) as error:
        why = str(error).partition("\n")[0]
    raise NotConfigured(
        f"vectors need pgvector 0.8 or newer ({why}); install it on the server, and let a superuser run `CREATE EXTENSION vector` or "
        "`ALTER EXTENSION vector UPDATE` in the database, or declare the store with `vectors = false`"
    )
