"""The tables of an index, and the catalogue of all indexes.

An index has documents, passages, terms and postings.  A document and a passage also have their terms as arrays: by these a
passage's postings are deleted, and a whole document is scored without postings of its own.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from psycopg import errors, sql

from models.errors import NotConfigured
from search.checks import built_differently
from search.engines.postgresql.connection import MissingIndex, Session
from search.protocol import Index

FORMAT = 1
"""Version of this layout; an index of another one is not there."""
MOST_DIMENSIONS = 2_000
"""pgvector's graph takes no longer vectors; these are always compared one by one."""
_LOCK = 5_471_062_290_385
"""Of whoever makes the catalogue: `IF NOT EXISTS` alone fails when two processes begin together."""

_CATALOGUE = """
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
GRAPH = "CREATE INDEX {graph} ON {passages} USING hnsw (embedding vector_ip_ops) WITH (m = 16, ef_construction = 64)"
_DROPPED = "DROP TABLE IF EXISTS {postings}, {terms}, {passages}, {documents}"
_FOUND = """
    SELECT id, dimension, passages, passage_words, documents, document_words, last_id,
        to_regclass('chorale_engine_' || id || '_graph') IS NOT NULL
    FROM chorale_engine WHERE name = %s AND format = %s AND to_regclass('chorale_engine_' || id || '_passages') IS NOT NULL
"""
_KINDS = ("documents", "passages", "terms", "postings", "graph")


@dataclass(frozen=True, slots=True)
class Tables:
    """An index as a transaction sees it."""

    id: int
    dimension: int
    """0: without vectors."""
    passages: int = 0
    passage_words: int = 0
    documents: int = 0
    """The number of documents that have passages."""
    document_words: int = 0
    last_id: int = 0
    has_graph: bool = False

    def sql(self, statement: str, **parts: str) -> sql.Composed:
        """The statement with the names of the tables, and with `parts`, in the places of `{passages}` and so on."""
        filled = statement
        for name, part in parts.items():
            filled = filled.replace(f"{{{name}}}", part)
        names = {kind: sql.Identifier(f"chorale_engine_{self.id}_{kind}") for kind in _KINDS}
        return sql.SQL(filled).format(**names)


def find(session: Session, index: Index, *, locked: bool = False) -> Tables:
    """Raises MissingIndex.  `locked`: until the transaction ends, no other one writes the index."""
    try:
        statement = _FOUND + (" FOR UPDATE" if locked else "")
        row = session.execute(statement.encode(), (index.name, FORMAT)).fetchone()
    except errors.UndefinedTable:
        row = None
    if row is None:
        raise MissingIndex(f"PostgreSQL has no index {index.name}")
    return Tables(*row)


def create(session: Session, index: Index, dimension: int) -> None:
    """Raises ManifestMismatch if the index is there with other vectors, and NotConfigured if these need a usable pgvector."""
    session.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    session.execute(_CATALOGUE)
    with suppress(MissingIndex):
        if (found := find(session, index).dimension) != dimension:
            differing = f"its vectors have {found} numbers, asked for {dimension}"
            raise built_differently(index.namespace, [differing])
        return
    drop(session, index)  # what is left of a lost index would refuse its name
    if dimension:
        _need_pgvector(session)
    insert = "INSERT INTO chorale_engine (name, format, dimension) VALUES (%s, %s, %s) RETURNING id"
    for (number,) in session.execute(insert, (index.name, FORMAT, dimension)).fetchall():
        embedding = f", embedding vector({dimension})" if dimension else ""
        session.execute(Tables(number, dimension).sql(_TABLES, embedding=embedding))


def drop(session: Session, index: Index) -> None:
    delete = "DELETE FROM chorale_engine WHERE name = %s RETURNING id"
    for (number,) in session.execute(delete, (index.name,)).fetchall():
        session.execute(Tables(number, 0).sql(_DROPPED))


def _need_pgvector(session: Session) -> None:
    query = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    if not (rows := session.execute(query).fetchall()):
        try:
            session.execute("CREATE EXTENSION vector")
        except errors.InsufficientPrivilege:
            raise NotConfigured(
                "the database has no extension vector, and we may not create it: let an administrator run "
                "`CREATE EXTENSION vector` there, or declare the store with `vectors = false`"
            ) from None
        except (errors.FeatureNotSupported, errors.UndefinedFile):
            raise NotConfigured(
                "the server has no pgvector: install it there, or declare the store with `vectors = false`"
            ) from None
        rows = session.execute(query).fetchall()
    [(version,)] = rows
    if tuple(map(int, version.split(".")[:2])) < (0, 8):
        raise NotConfigured(
            f"the database has pgvector {version}, whose graph returns too few hits: install 0.8 or newer, and let an "
            "administrator run `ALTER EXTENSION vector UPDATE`"
        )
