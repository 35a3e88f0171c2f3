"""The rows of feedback, in the database of the audit trail.  `audit.deletion` deletes them with their request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields

from sqlalchemy import Connection, Engine, Select, func, or_, select

from audit.drainer import INSERTS
from audit.queries import Which
from judgements.feedback import NOTHING_FITS, THUMBS, Feedback, RecordedQuestion
from models.audit_tables import HitRow, QuestionRow, RequestRow
from models.batching import in_batches
from models.errors import ServiceError
from models.installation_tables import feedback_table as table

ROWS_AT_ONCE = 500
JUDGED_HITS = 10
"""First hits of a question that a judge is shown."""


class NotRecorded(ServiceError):
    """The request of some feedback is not in the trail, or not any more."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """A recorded question, and which of its first hits have a grade or a thumb."""

    question: RecordedQuestion
    documents: Mapping[str, int]
    """The rank of each."""
    judged: Collection[str]
    nothing_fits: bool
    """Somebody said so."""

    @property
    def is_begun(self) -> bool:
        return self.nothing_fits or bool(self.judged)

    @property
    def is_done(self) -> bool:
        return self.nothing_fits or len(self.judged) == len(self.documents)


def put(engine: Engine, feedback: Sequence[Feedback]) -> None:
    """Write all or nothing; a later event takes the place of the same key's earlier one.  Raises NotRecorded, SQLAlchemyError."""
    # In the order of their ids, so that two writers cannot wait for each other; the last of equal events counts.
    rows = {row["feedback_id"]: row for row in (item.row() for item in feedback)}
    insert = INSERTS[engine.dialect.name](table)
    newer = {name: insert.excluded[name] for name in ("at_ms", "grade", "ordinal")}
    upsert = insert.on_conflict_do_update(
        index_elements=["feedback_id"], set_=newer, where=insert.excluded.at_ms >= table.c.at_ms
    )
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        for batch in in_batches([rows[id_] for id_ in sorted(rows)], ROWS_AT_ONCE):
            _hold_requests(connection, {row["request_id"] for row in batch})
            connection.execute(upsert, batch)


def _hold_requests(connection: Connection, request_ids: Collection[str]) -> None:
    """Nobody deletes these requests before this transaction has ended.  Raises NotRecorded."""
    held = select(RequestRow.request_id).where(RequestRow.request_id.in_(request_ids))
    there = connection.scalars(held.with_for_update(read=True, key_share=True))
    if missing := sorted({*request_ids} - {*there}):
        raise NotRecorded(f"the trail has no request {missing[0]!r}")


def listed(engine: Engine, namespace: str) -> list[Feedback]:
    """All feedback of a namespace, oldest first."""
    columns = [table.c[field.name] for field in fields(Feedback)]
    query = select(*columns).where(table.c.namespace == namespace)
    with engine.connect() as connection:
        rows = connection.execute(query.order_by(table.c.at_ms, table.c.feedback_id))
        return [Feedback(**row._mapping) for row in rows]


def questions(
    engine: Engine, namespace: str, names: Collection[str]
) -> dict[tuple[str, int], RecordedQuestion]:
    """Recorded questions by request id and position, and by the hash of their text and 0, for what stands in `names`.

    Of several questions with one text the newest counts.
    """
    found = {}
    with engine.connect() as connection:
        for some in in_batches(names, ROWS_AT_ONCE):
            which = or_(RequestRow.request_id.in_(some), QuestionRow.text_hash.in_(some))
            query = _recorded().where(RequestRow.namespace == namespace, which)
            for row in connection.execute(query.order_by(RequestRow.accepted_at_ms)):
                question = RecordedQuestion(**row._mapping)
                found[question.request_id, question.question] = found[question.text_hash, 0] = question
    return found


def coverage(engine: Engine, which: Which, newest: int, *, tenant: str | None = None) -> list[Coverage]:
    """The `newest` recorded questions, newest first, each text once, without those that have no hit.

    With `tenant`, only feedback of its requests counts.
    """
    hit, question = HitRow, QuestionRow
    latest = _recorded().where(*which.conditions())
    latest = latest.order_by(RequestRow.accepted_at_ms.desc(), RequestRow.request_id, question.position)
    latest = latest.add_columns(RequestRow.accepted_at_ms).limit(newest)
    of = latest.subquery()
    hits = (
        select(hit.request_id, hit.question, hit.document_id, hit.rank)
        .join(
            of,
            (hit.request_id == of.c.request_id)
            & (hit.accepted_at_ms == of.c.accepted_at_ms)
            & (hit.question == of.c.question),
        )
        .where(hit.rank <= JUDGED_HITS)
    )
    judgements = select(table.c.namespace, table.c.text_hash, table.c.object_id).where(
        table.c.text_hash.in_(select(of.c.text_hash)),
        table.c.action_name.in_(["grade", NOTHING_FITS, *THUMBS]),
    )
    if tenant is not None:
        judgements = judgements.where(table.c.tenant == tenant)
    documents: dict[tuple[str, int], dict[str, int]] = {}
    judged: dict[tuple[str, str], set[str | None]] = {}
    with engine.connect() as connection:
        recorded = [row._asdict() for row in connection.execute(latest)]
        for request_id, position, document_id, rank in connection.execute(hits):
            documents.setdefault((request_id, position), {})[document_id] = rank
        for namespace, text_hash, document_id in connection.execute(judgements):
            judged.setdefault((namespace, text_hash), set()).add(document_id)
    found: dict[tuple[str, str], Coverage] = {}
    for row in recorded:
        del row["accepted_at_ms"]
        text = row["namespace"], row["text_hash"]
        if text not in found and (ranks := documents.get((row["request_id"], row["question"]))):
            of_text = judged.get(text, set())
            judged_hits = [document_id for document_id in ranks if document_id in of_text]
            found[text] = Coverage(RecordedQuestion(**row), ranks, judged_hits, None in of_text)
    return list(found.values())


def grades_of(engine: Engine, question: RecordedQuestion, key_id: str) -> dict[str, int]:
    """The grades that a key has given to documents of a question of a request."""
    query = select(table.c.object_id, table.c.grade).where(
        table.c.request_id == question.request_id,
        table.c.question == question.question,
        table.c.key_id == key_id,
        table.c.action_name == "grade",
    )
    with engine.connect() as connection:
        return {row.object_id: row.grade for row in connection.execute(query)}


def counts(engine: Engine, namespace: str) -> dict[str, dict[str, int]]:
    """Number of events by source and action."""
    by = (table.c.source, table.c.action_name)
    query = select(*by, func.count()).where(table.c.namespace == namespace).group_by(*by).order_by(*by)
    found: dict[str, dict[str, int]] = {}
    with engine.connect() as connection:
        for source, action, count in connection.execute(query):
            found.setdefault(source, {})[action] = count
    return found


def _recorded() -> Select[str, int, str, str | None, str | None, str]:
    """The columns of `RecordedQuestion`."""
    return select(
        RequestRow.request_id,
        QuestionRow.position.label("question"),
        RequestRow.namespace,
        RequestRow.configuration,
        QuestionRow.text,
        QuestionRow.text_hash,
    ).join(RequestRow.questions)
