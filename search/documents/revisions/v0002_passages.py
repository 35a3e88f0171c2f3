"""Documents and passages in the tables of the embedded store, instead of one compressed row a document."""

import json
import zlib
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_AT_ONCE = 200


def upgrade() -> None:
    _create()
    connection = op.get_bind()
    connection.execute(
        sa.text("INSERT INTO chorale_generation SELECT name, generation FROM chorale_stored_generation")
    )
    # Readers saw every batch, so `visible` is the last one.  A rebuild in progress gets the name of its namespace with `.next`.
    connection.execute(
        sa.text(
            "INSERT INTO chorale_namespace (namespace_id, name, manifest, sequence, visible, lexical) "
            "SELECT namespace_id, CASE WHEN is_current THEN name ELSE name || '.next' END, manifest, sequence, sequence, '' "
            "FROM chorale_stored_namespace"
        )
    )
    if connection.dialect.name == "postgresql":
        last = "SELECT max(namespace_id) FROM chorale_namespace"
        serial = "pg_get_serial_sequence('chorale_namespace', 'namespace_id')"
        connection.execute(
            sa.text(f"SELECT setval({serial}, ({last})) WHERE EXISTS ({last} HAVING count(*) > 0)")
        )
    _copy_documents(connection)
    for name in ("document", "namespace", "generation"):
        op.drop_table(f"chorale_stored_{name}")


def _copy_documents(connection: sa.Connection) -> None:
    old, document, passage = (
        sa.Table(name, sa.MetaData(), autoload_with=connection)
        for name in ("chorale_stored_document", "chorale_document", "chorale_passage")
    )
    document.c.metadata.type = sa.JSON()
    key = (old.c.namespace_id, old.c.document_id)
    last = (-1, "")
    while True:
        after = sa.tuple_(*key) > sa.tuple_(*map(sa.literal, last))
        rows = connection.execute(sa.select(old).where(after).order_by(*key).limit(_AT_ONCE)).all()
        if not rows:
            return
        last = (rows[-1].namespace_id, rows[-1].document_id)
        found = [_rows_of(row) for row in rows]
        connection.execute(sa.insert(document), [one for one, _ in found])
        if passages := [one for _, of_document in found for one in of_document]:
            connection.execute(sa.insert(passage), passages)


def _rows_of(row: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row of a document and the rows of its passages."""
    title, metadata, held = json.loads(zlib.decompress(row.content)) if row.content else ("", {}, [])
    count = sum(one[-1] for one in held)
    size = len(row.vectors) // count if count else 0
    vectors = iter([row.vectors[n * size : (n + 1) * size] for n in range(count)])
    begun = row.sequence - 1 if row.is_deleted else row.sequence
    shared = {"namespace_id": row.namespace_id, "document_id": row.document_id, "sequence": begun}
    ended = row.sequence if row.is_deleted else None
    document = {
        **shared,
        "ended": ended,
        "source": row.source,
        "title": _kept(title),
        "metadata": metadata,
        "content_hash": row.content_hash,
        "near_duplicate_group": row.near_duplicate_group,
        "revision": row.revision,
    }
    passages = [
        {
            **shared,
            "ended": ended,
            "passage_id": passage_id,
            "position": position,
            "heading": _kept(heading),
            "text": _kept(text),
            "start": start,
            "end": end,
            "vector": next(vectors) if has_vector else None,
        }
        for passage_id, position, text, heading, start, end, has_vector in held
    ]
    return document, passages


def _kept(text: str) -> str:
    # What no column of text takes.
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _create() -> None:
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
        sa.Column("visible", sa.BigInteger, nullable=False),
        sa.Column("lexical", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "chorale_document",
        sa.Column("namespace_id", _Key, nullable=False),
        sa.Column("document_id", sa.Text, nullable=False),
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
        sa.Column("namespace_id", _Key, nullable=False),
        sa.Column("passage_id", sa.Text, nullable=False),
        sa.Column("document_id", sa.Text, nullable=False),
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
