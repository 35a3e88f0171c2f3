"""Judging: a recorded question and its first hits, in an order that hides their ranks, with a grade for each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from anyio import to_thread
from chorale_client.errors import ChoraleError, InvalidRequest, ServiceUnavailable
from chorale_client.tenants import owned

from api.audit import visible_row
from api.feedback import record
from api.problems import Problem
from console.compare import address_of, compared_by, count_comparison, summary, tenant_of_feedback
from console.corpus import read_document
from console.pages import Page, Visit, checked
from console.recorded import stored_hits
from console.search import MEANINGS, marked
from models.errors import ServiceError
from models.tables.audit import RequestRow
from records.audit.queries import Which
from records.judgements import store
from records.judgements.feedback import NOTHING_FITS, Event, RecordedQuestion
from records.judgements.store import JUDGED_HITS, Coverage

if TYPE_CHECKING:
    from evaluation.judged.judged_comparison import OpenQuestion

NEWEST = 200
"""Recorded requests among which the next one is chosen."""
BEGINNING_CHARS = 600
"""The page shows so many characters of a document whose snippet has expired."""
GRADE = "grade."
"""Before the id of a document, the field of its grade."""
ORIGIN = "of."
"""Before the id of a document, the field with the other request that had the document, and the question's position in it."""


async def show(visit: Visit) -> dict[str, Any]:
    """The question of `request`, or the next one `after` another: with an unjudged hit, or that settles the comparison of `a` and
    `b` soonest."""
    coverage = await to_thread.run_sync(_coverage, visit)
    data: dict[str, Any] = {**store.judged_share(coverage), "meanings": MEANINGS, "question": None}
    is_comparing = "b" in visit.parameters
    data |= {"comparison": None, "state": address_of(visit.parameters) if is_comparing else {}}
    request_id, position = visit.parameters.get("request"), visit.parameters.get("question", "0")
    documents: Mapping[str, RecordedQuestion | None] | None = None
    if request_id is None and is_comparing:
        await count_comparison(visit)
        data["comparison"], chosen = await to_thread.run_sync(_settling, visit)
        if chosen is None:
            return data
        request_id, position = chosen.request_id, str(chosen.question)
        documents = dict.fromkeys(chosen.documents)
    elif request_id is None:
        unjudged = next_unjudged(coverage, visit.parameters.get("after"))
        if unjudged is None:
            return data
        request_id, position = unjudged.question.request_id, str(unjudged.question.question)
        documents = unjudged.documents
    row = await to_thread.run_sync(visible_row, visit.session.grant, visit.services, request_id)
    return data | {"question": await _question(visit, row, position, documents)}


def _settling(visit: Visit) -> tuple[dict[str, Any], OpenQuestion | None]:
    """The comparison so far, and the question whose grades can change it most, or the next one `after` another."""
    compared = compared_by(visit)
    judged = compared.replayed.judged
    names = ["/".join(question.name) for question in judged.open]
    after = visit.parameters.get("after")
    place = names.index(after) + 1 if after in names else 0
    chosen = judged.open[place % len(names)] if names else None
    comparison = {"names": compared.names, "differing": chosen.unjudged if chosen else 0, **summary(judged)}
    return comparison, chosen


def _coverage(visit: Visit) -> list[Coverage]:
    """Of the requests, and by the feedback, that the key may see."""
    grant = visit.session.grant
    tenant = tenant_of_feedback(grant)
    which = Which(owner=owned(tenant, "") if tenant else "", namespaces=grant.namespaces)
    return store.coverage(visit.services.database, which, NEWEST, tenant=tenant)


def next_unjudged(coverage: Sequence[Coverage], after: str | None) -> Coverage | None:
    """The first question behind `after` that has an unjudged hit; behind the last one comes the first."""
    names = [_name(item.question) for item in coverage]
    start = names.index(after) + 1 if after in names else 0
    for item in (*coverage[start:], *coverage[:start]):
        if item.judged < item.hits and not item.nothing_fits:
            return item
    return None


def _name(question: RecordedQuestion) -> str:
    return f"{question.namespace}/{question.text_hash}"


async def _question(
    visit: Visit, row: RequestRow, position: str, documents: Mapping[str, RecordedQuestion | None] | None
) -> dict[str, Any]:
    """The documents, each with the request that had it if this is another one, or the first hits of the request.  Ranks,
    branches and scores are left out.  Raises InvalidRequest."""
    if position not in map(str, range(len(row.questions))):
        raise InvalidRequest(f"question: the search has {len(row.questions)}, counted from 0")
    question = RecordedQuestion.of(row, int(position))
    answer_hits = await stored_hits(visit, row.request_id)
    grades = await to_thread.run_sync(
        store.grades_of, visit.services.database, question, visit.session.grant.key_id
    )
    answered = [hit.document_id for hit in row.questions[question.question].hits[:JUDGED_HITS]]
    listed: Mapping[str, RecordedQuestion | None] = (
        dict.fromkeys(answered) if documents is None else documents
    )
    hits, has_reader = [], True
    for document_id in sorted(listed, key=lambda id_: _place(question, id_)):
        origin = listed[document_id] or question
        hit = answer_hits.get((question.question, document_id))
        title: str | None = ""
        snippet: list[dict[str, Any]] = []
        if hit is not None and hit.snippet is not None:
            title, snippet = hit.title, marked(hit.snippet)
        elif has_reader:
            try:
                title, beginning = await to_thread.run_sync(_read, visit, question.namespace, document_id)
            except ServiceUnavailable:
                has_reader = False  # each call would wait as long
            else:
                snippet = [{"text": beginning, "is_marked": False}] if beginning else []
        hits.append(
            {
                "document_id": document_id,
                "title": title or document_id,
                "snippet": snippet,
                "grade": grades.get(document_id),
                "of": None
                if origin.request_id == row.request_id
                else f"{origin.request_id} {origin.question}",
            }
        )
    return {
        "request_id": row.request_id,
        "position": question.question,
        "namespace": question.namespace,
        "text": question.text,
        "name": _name(question),
        "hits": hits,
    }


def _read(visit: Visit, namespace: str, document_id: str) -> tuple[str, str]:
    """Title and beginning of a document whose answer has expired; empty if the key cannot read them.  Raises
    ServiceUnavailable."""
    try:
        visit.session.grant.require("search:run")
        document = read_document(visit, namespace, document_id)
    except ServiceUnavailable:
        raise
    except (ServiceError, Problem, ChoraleError):
        return "", ""
    beginning = " ".join(passage["text"] for passage in document["passages"][:2])
    return document["title"], beginning[:BEGINNING_CHARS]


def _place(question: RecordedQuestion, document_id: str) -> bytes:
    """An order that has nothing to do with ranks, and is the same for every judge of the question."""
    return hashlib.sha256(f"{question.text_hash}{document_id}".encode()).digest()


async def save(visit: Visit, form: Mapping[str, str]) -> str:
    """Records the grades of a form; the next question is shown then.  Raises Forbidden, InvalidRequest, Problem."""
    grant, services = visit.session.grant, visit.services
    grant.require("search:run")
    events = _events(form)
    rows = {}
    for request_id in {form.get("request", ""), *(event.request_id for event in events)}:
        rows[request_id] = await to_thread.run_sync(visible_row, grant, services, request_id)
    await to_thread.run_sync(record, services.database, events, rows, grant.key_id, "judge")
    comparison = address_of(dict(parse_qsl(form.get("comparison", ""))))
    return f"/judge?{urlencode({**comparison, 'after': form.get('name', '')})}"


def _events(form: Mapping[str, str]) -> list[Event]:
    """Raises InvalidRequest."""
    about = {"request_id": form.get("request", ""), "question": form.get("question", "0")}
    judged: list[dict[str, str]] = []
    for name, value in form.items():
        if name.startswith(GRADE):
            document_id = name.removeprefix(GRADE)
            request_id, _, position = form.get(ORIGIN + document_id, "").partition(" ")
            origin = {"request_id": request_id, "question": position} if request_id else about
            judged.append({**origin, "action": "grade", "document_id": document_id, "grade": value})
    if NOTHING_FITS in form:
        judged.append({**about, "action": NOTHING_FITS})
    return [checked(Event, fields) for fields in judged]


PAGES = (Page("/judge", "Judge", "judge.html", show, ("audit:read",), post=save),)
