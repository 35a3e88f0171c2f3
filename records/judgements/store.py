"""The rows of feedback, in the database of the audit trail.  `records.audit.deletion` deletes them with their request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Engine, Select, func, or_, select, true
from sqlalchemy.orm import Session, selectinload

from models.batching import in_batches
from models.errors import ServiceError
from models.shadow_ids import SUFFIX
from models.tables.audit import HitRow, QuestionRow, RequestRow
from models.tables.installation import feedback_table as table
from records.audit.deletion import keep_rows, keeping_rows
from records.audit.queries import Which, last
from records.database import insert_into
from records.judgements.feedback import LLM, NOTHING_FITS, THUMBS, Feedback, RecordedQuestion

_BY_PEOPLE = table.c.source != LLM
GRADED_REQUESTS = select(table.c.request_id).where(table.c.action_name.in_(["grade", *THUMBS]), _BY_PEOPLE)
"""The ids of the requests of which people judged a document."""
REQUESTS_WITH_FEEDBACK = select(table.c.request_id).where(_BY_PEOPLE)
"""The ids of the requests of which people said something."""
ROWS_AT_ONCE = 500
JUDGED_HITS = 10
"""First hits of a question that a judge is shown."""


class NotRecorded(ServiceError):
    """The request of some feedback is not in the trail, or not any more."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many first hits all requests with one question have, and how many of them have a grade or a thumb."""

    question: RecordedQuestion
    """The newest one.  A shadow's stands here only if no other request had the question: no answer of a shadow is kept."""
    documents: Mapping[str, RecordedQuestion]
    """By document id, the newest request that had the document among its first hits."""
    judged: int
    nothing_fits: bool
    """Somebody says so."""

    @property
    def hits(self) -> int:
        return len(self.documents)


@dataclass(frozen=True, slots=True)
class FirstHit:
    """A hit of a recorded question."""

    question: RecordedQuestion
    rank: int
    document_id: str
    passage_id: str


def put(engine: Engine, feedback: Sequence[Feedback]) -> None:
    """Write all or nothing; a later event takes the place of the same key's earlier one.  Raises NotRecorded, SQLAlchemyError."""
    # In the order of their ids, so that two writers cannot wait for each other; the last of equal events counts.
    rows = {row["feedback_id"]: row for row in (item.row() for item in feedback)}
    insert = insert_into(engine, table)
    newer = {name: insert.excluded[name] for name in ("at_ms", "grade", "ordinal")}
    upsert = insert.on_conflict_do_update(
        index_elements=["feedback_id"], set_=newer, where=insert.excluded.at_ms >= table.c.at_ms
    )
    with keeping_rows(engine) as connection:
        for batch in in_batches([rows[id_] for id_ in sorted(rows)], ROWS_AT_ONCE):
            request_ids = {row["request_id"] for row in batch}
            if missing := sorted(request_ids - keep_rows(connection, request_ids)):
                raise NotRecorded(f"the trail has no request {missing[0]!r}")
            connection.execute(upsert, batch)


def listed(engine: Engine, namespace: str) -> list[Feedback]:
    """All feedback of a namespace, oldest first."""
    return _listed(engine, table.c.namespace == namespace)


def on_questions(
    engine: Engine, namespaces: Collection[str], text_hashes: Collection[str], *, tenant: str | None = None
) -> list[Feedback]:
    """The feedback on questions with these texts in these namespaces, for each text oldest first.  With `tenant`, only that on
    its requests."""
    feedback: list[Feedback] = []
    for some in in_batches(text_hashes, ROWS_AT_ONCE):
        conditions = table.c.namespace.in_(namespaces), table.c.text_hash.in_(some)
        feedback += _listed(engine, *conditions, _by_tenant(tenant))
    return feedback


def by_people(engine: Engine, requests: Select[Any]) -> list[Feedback]:
    """The feedback of people on these requests, oldest first."""
    return _listed(engine, table.c.request_id.in_(requests), _BY_PEOPLE)


def _listed(engine: Engine, *conditions: ColumnElement[bool]) -> list[Feedback]:
    query = select(*[table.c[field.name] for field in fields(Feedback)]).where(*conditions)
    with engine.connect() as connection:
        rows = connection.execute(query.order_by(table.c.at_ms, table.c.feedback_id))
        return [Feedback(**row._mapping) for row in rows]


def _by_tenant(tenant: str | None) -> ColumnElement[bool]:
    return true() if tenant is None else table.c.tenant == tenant


def questions(
    engine: Engine, namespace: str, names: Collection[str]
) -> dict[tuple[str, int], RecordedQuestion]:
    """Recorded questions by request id and position, and by the hash of their text and 0, for what stands in `names`.

    Of several questions with one text the newest counts.
    """
    recorded = {}
    with Session(engine) as session:
        for some in in_batches(names, ROWS_AT_ONCE):
            has_text = RequestRow.questions.any(QuestionRow.text_hash.in_(some))
            which = RequestRow.namespace == namespace, or_(RequestRow.request_id.in_(some), has_text)
            rows = select(RequestRow).where(*which).order_by(RequestRow.accepted_at_ms)
            for question in _recorded(session.scalars(rows.options(selectinload(RequestRow.questions)))):
                recorded[question.request_id, question.question] = recorded[question.text_hash, 0] = question
    return recorded


def coverage(engine: Engine, which: Which, newest: int, *, tenant: str | None = None) -> list[Coverage]:
    """The questions of the `newest` requests, newest first, each text once with the hits of all of them, without those that have
    no hit.

    With `tenant`, only feedback of its requests counts.
    """
    rows = last(engine, newest, which)
    recorded = list(_recorded(rows))
    documents: dict[tuple[str, int], set[str]] = defaultdict(set)
    judged: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    hits = select(HitRow.request_id, HitRow.question, HitRow.document_id).where(HitRow.rank <= JUDGED_HITS)
    judgements = select(table.c.namespace, table.c.text_hash, table.c.object_id).where(
        table.c.action_name.in_(["grade", NOTHING_FITS, *THUMBS]),
        _BY_PEOPLE,
        _by_tenant(tenant),
    )
    with engine.connect() as connection:
        for some in in_batches(recorded, ROWS_AT_ONCE):
            ids, texts = {item.request_id for item in some}, {item.text_hash for item in some}
            for hit in connection.execute(hits.where(HitRow.request_id.in_(ids))):
                documents[hit.request_id, hit.question].add(hit.document_id)
            for event in connection.execute(judgements.where(table.c.text_hash.in_(texts))):
                judged[event.namespace, event.text_hash].add(event.object_id)
    newest_of: dict[tuple[str, str], RecordedQuestion] = {}
    pools: dict[tuple[str, str], dict[str, RecordedQuestion]] = defaultdict(dict)
    for question in sorted(recorded, key=lambda question: question.request_id.endswith(SUFFIX)):
        if of := documents[question.request_id, question.question]:
            text = question.namespace, question.text_hash
            newest_of.setdefault(text, question)
            for document_id in sorted(of):
                pools[text].setdefault(document_id, question)
    return [
        Coverage(question, pools[text], len(pools[text].keys() & judged[text]), None in judged[text])
        for text, question in newest_of.items()
    ]


def _recorded(rows: Iterable[RequestRow]) -> Iterator[RecordedQuestion]:
    return (RecordedQuestion.of(row, position) for row in rows for position in range(len(row.questions)))


def ungraded_hits(engine: Engine, namespace: str, newest: int, judge: str) -> list[FirstHit]:
    """Of the `newest` requests, newest first, the first hits with a passage that this judge has not graded.  Of several questions
    with one text the newest counts, and none counts whose text is not kept."""
    recorded: dict[str, RecordedQuestion] = {}
    for question in _recorded(last(engine, newest, Which(namespace=namespace))):
        if question.text is not None:
            recorded.setdefault(question.text_hash, question)
    hits = select(HitRow).where(HitRow.rank <= JUDGED_HITS, HitRow.passage_id.is_not(None))
    graded = select(table.c.text_hash, table.c.object_id).where(
        table.c.namespace == namespace, table.c.key_id == judge, table.c.action_name == "grade"
    )
    ungraded = []
    with Session(engine) as session:
        known = {tuple(pair) for pair in session.execute(graded)}
        for some in in_batches(list(recorded.values()), ROWS_AT_ONCE):
            by_place = {(question.request_id, question.question): question for question in some}
            rows = session.scalars(hits.where(HitRow.request_id.in_({id_ for id_, _ in by_place})))
            for hit in rows:
                of = by_place.get((hit.request_id, hit.question))
                if of is not None and (of.text_hash, hit.document_id) not in known:
                    ungraded.append(FirstHit(of, hit.rank, hit.document_id, hit.passage_id or ""))
    return ungraded


def judged_share(coverage: Sequence[Coverage]) -> dict[str, dict[str, int]]:
    """How many questions and hits have a judgement, of how many."""
    begun = sum(bool(item.judged) or item.nothing_fits for item in coverage)
    hits = {"judged": sum(item.judged for item in coverage), "all": sum(item.hits for item in coverage)}
    return {"questions": {"judged": begun, "all": len(coverage)}, "hits": hits}


def grades_of(engine: Engine, question: RecordedQuestion, key_id: str) -> dict[str, int]:
    """The latest grades that a key has given to documents of this question, on whatever request."""
    query = select(table.c.object_id, table.c.grade).where(
        table.c.namespace == question.namespace,
        table.c.text_hash == question.text_hash,
        table.c.key_id == key_id,
        table.c.action_name == "grade",
    )
    with engine.connect() as connection:
        return {row.object_id: row.grade for row in connection.execute(query.order_by(table.c.at_ms))}


def graded(engine: Engine) -> dict[str, int]:
    """By namespace, the number of grades and thumbs of people."""
    query = select(table.c.namespace, func.count()).where(
        table.c.action_name.in_(["grade", *THUMBS]), _BY_PEOPLE
    )
    with engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(query.group_by(table.c.namespace))}


def counts(engine: Engine, namespace: str) -> dict[str, dict[str, int]]:
    """Number of events by source and action."""
    by = (table.c.source, table.c.action_name)
    query = select(*by, func.count()).where(table.c.namespace == namespace).group_by(*by).order_by(*by)
    by_source: dict[str, dict[str, int]] = {}
    with engine.connect() as connection:
        for source, action, count in connection.execute(query):
            by_source.setdefault(source, {})[action] = count
    return by_source
