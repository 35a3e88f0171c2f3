"""Namespaces, documents, passages, near-duplicates, and the indexes that stores have made of them.

Takes over what earlier versions have written: the corpus of one embedded store, which had these tables but for the last
two, and the documents of several stores, each in one compressed row.  Every index is built anew.
"""

import json
import zlib
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None

_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_AT_ONCE = 200


def upgrade() -> None:
    has_table = sa.inspect(op.get_bind()).has_table
    if has_table("chorale_namespace"):
        for name in ("visible", "lexical"):
            op.drop_column("chorale_namespace", name)
    else:
        _create_documents()
    if not has_table("chorale_near_duplicates"):
        _create_near_duplicates()
    _create_indexes()
    if has_table("chorale_stored_document"):
        _take_over()
    for name in ("document", "namespace", "generation", "state", "mark", "rebuild"):
        op.execute(f"DROP TABLE IF EXISTS chorale_stored_{name}")


def _create_documents() -> None:
    op.create_table(
        "chorale_generation",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("generation", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "chorale_namespace",
        sa.Column("namespace_id", _Key, primary_key=True, autoincrement=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "chorale_document",
        *_of_namespace("document_id"),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.BigInteger),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.Column("near_duplicate_group", sa.Text),
        sa.Column("revision", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "document_id", "sequence"),
        sa.Index("chorale_document_sequence", "namespace_id", "sequence", "ended"),
        sa.Index("chorale_document_ended", "namespace_id", "ended"),
        sa.Index("chorale_document_source", "namespace_id", "source"),
    )
    op.create_table(
        "chorale_passage",
        sa.Column("rid", _Key, primary_key=True, autoincrement=True),
        *_of_namespace("passage_id", "document_id"),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.BigInteger),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("heading", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("start", sa.Integer, nullable=False),
        sa.Column("end", sa.Integer, nullable=False),
        sa.Column("vector", sa.LargeBinary),
        sa.Index("chorale_passage_sequence", "namespace_id", "sequence", "ended"),
        sa.Index("chorale_passage_ended", "namespace_id", "ended"),
        sa.Index("chorale_passage_name", "namespace_id", "passage_id"),
        sa.Index("chorale_passage_document", "namespace_id", "document_id"),
        sqlite_autoincrement=True,
    )


def _create_near_duplicates() -> None:
    op.create_table(
        "chorale_near_duplicates",
        sa.Column("namespace_id", _Key, primary_key=True, autoincrement=False),
        sa.Column("settings", sa.Text, nullable=False),
    )
    op.create_table(
        "chorale_near_duplicate_group",
        *_of_namespace(),
        sa.Column("group_id", _Key, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.Column("members", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "group_id"),
        sa.UniqueConstraint("namespace_id", "name"),
    )
    op.create_table(
        "chorale_near_duplicate_band",
        *_of_namespace(),
        sa.Column("band", sa.BigInteger, nullable=False),
        sa.Column("group_id", _Key, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "band", "group_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "chorale_near_duplicate_member",
        *_of_namespace("document_id"),
        sa.Column("group_id", _Key, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "document_id"),
        sqlite_with_rowid=False,
    )


def _create_indexes() -> None:
    op.create_table(
        "chorale_index",
        *_of_namespace("store", "name"),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("is_shown", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "store", "name"),
    )
    op.create_table(
        "chorale_refused",
        *_of_namespace("store", "document_id", "reason"),
        sa.PrimaryKeyConstraint("namespace_id", "store", "document_id"),
    )


def _of_namespace(*names: str) -> list[sa.Column[Any]]:
    """The build of a namespace, and texts that are always there."""
    texts = [sa.Column(name, sa.Text, nullable=False) for name in names]
    return [sa.Column("namespace_id", _Key, nullable=False), *texts]


def _take_over() -> None:
    """The documents of several stores; a rebuild in progress is forgotten."""
    connection = op.get_bind()
    for statement in (
        "INSERT INTO chorale_generation SELECT name, generation FROM chorale_stored_generation",
        "INSERT INTO chorale_namespace (namespace_id, name, manifest, sequence) "
        "SELECT namespace_id, name, manifest, sequence FROM chorale_stored_namespace WHERE is_current",
    ):
        connection.execute(sa.text(statement))
    if connection.dialect.name == "postgresql":
        last = "SELECT max(namespace_id) FROM chorale_stored_namespace"
        serial = "pg_get_serial_sequence('chorale_namespace', 'namespace_id')"
        connection.execute(
            sa.text(f"SELECT setval({serial}, ({last})) WHERE EXISTS ({last} HAVING count(*) > 0)")
        )
    old, document, passage = (
        sa.Table(name, sa.MetaData(), autoload_with=connection)
        for name in ("chorale_stored_document", "chorale_document", "chorale_passage")
    )
    document.c.metadata.type = sa.JSON()
    key, last_key = (old.c.namespace_id, old.c.document_id), (-1, "")
    current = old.c.namespace_id.in_(sa.text("SELECT namespace_id FROM chorale_namespace"))
    while True:
        after = sa.tuple_(*key) > sa.tuple_(*map(sa.literal, last_key))
        living = sa.select(old).where(after, current, sa.not_(old.c.is_deleted))
        rows = connection.execute(living.order_by(*key).limit(_AT_ONCE)).all()
        if not rows:
            return
        last_key = (rows[-1].namespace_id, rows[-1].document_id)
        made = [_rows_of(row) for row in rows]
        connection.execute(sa.insert(document), [of_document for of_document, _ in made])
        if passages := [of_passage for _, of_document in made for of_passage in of_document]:
            connection.execute(sa.insert(passage), passages)


def _rows_of(row: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row of a document and the rows of its passages."""
    title, metadata, passages = json.loads(zlib.decompress(row.content)) if row.content else ("", {}, [])
    count = sum(passage[-1] for passage in passages)
    size = len(row.vectors) // count if count else 0
    vectors = iter([row.vectors[n * size : (n + 1) * size] for n in range(count)])
    shared = {"namespace_id": row.namespace_id, "document_id": row.document_id, "sequence": row.sequence}
    document = {
        **shared,
        "source": row.source,
        "title": _storable(title),
        "metadata": metadata,
        "content_hash": row.content_hash,
        "near_duplicate_group": row.near_duplicate_group,
        "revision": row.revision,
    }
    return document, [
        {
            **shared,
            "passage_id": passage_id,
            "position": position,
            "heading": _storable(heading),
            "text": _storable(text),
            "start": start,
            "end": end,
            "vector": next(vectors) if has_vector else None,
        }
        for passage_id, position, text, heading, start, end, has_vector in passages
    ]


def _storable(text: str) -> str:
    # What no column of text takes.
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
