"""The search page: a question, its answer, and for each hit why it stands where it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any
from urllib.parse import urlencode

from anyio import move_on_after, to_thread
from chorale_client.answer import Answer, Hit, QuestionAnswer, Snippet
from chorale_client.errors import ChoraleError, InvalidRequest
from chorale_client.request import Request
from chorale_client.request_factory import make_request
from chorale_client.wire_names import consequence

from api.feedback import record, recorded_row
from api.limits import count_cost
from api.namespaces import NamespaceList, list_namespaces
from console.calls import calls_of
from console.charts import MOST_LINES, fused_score, rank_chart, score_bars
from console.pages import Page, Visit, checked, fields_of
from console.sessions import PATH
from models.errors import WrongDeclaration
from models.plan import ordinary_calls
from records.judgements.feedback import Event, RecordedQuestion
from records.judgements.store import grades_of
from records.keys.grant import OutOfScope
from records.keys.redaction import redacted, unknown_namespace

PARAMETERS = ("q", "namespace", "configuration", "top_k", "timeout_s", "filters", "live")
"""Those of the page's address."""
INCLUDE = ("ids", "metadata", "snippets", "explanation")
MOST_CHOICES = 100
"""Namespaces in a list to choose from; where there are more, the name is written."""
MISSING = {"degraded", "stages"}
"""The fields of an answer that say what is missing."""
NAMESPACES_S = 2.0
"""How long a page waits for the names of the namespaces."""
_FACETS, _FACET_CHARS = 12, 60
"""The page links at most this many values of a hit's metadata, of at most this many characters."""
MEANINGS = {0: "does not fit", 1: "touches it", 2: "helps", 3: "is the answer"}
"""Of the grades."""


async def show(visit: Visit) -> dict[str, Any]:
    """Searches when the address has a question."""
    known = await page_of_namespaces(visit, MOST_CHOICES)
    names = None if known is None else [namespace.name for namespace in known.namespaces]
    parameters = {name: visit.parameters.get(name, "") for name in PARAMETERS}
    data: dict[str, Any] = {
        "form": parameters | {"namespace": parameters["namespace"] or next(iter(names or ()), "")},
        "namespaces": names,
        "more_namespaces": known is not None and known.next is not None,
        "configurations": configurations_of(visit),
        "error": None,
        "answer": None,
        "grades": {},
        "meanings": MEANINGS,
        "calls": {},
    }
    if parameters["q"]:
        try:
            request = request_of(data["form"], visit.session.grant.new_id())
            data["calls"] = calls_of(request, str(visit.request.base_url).partition(PATH)[0].rstrip("/"))
            answer = await _answer_before(visit, request) or await ask(visit, request)
        except (ChoraleError, OutOfScope, ValueError) as error:
            data["error"] = str(error)
        else:
            data["error"] = unknown_namespace(answer, visit.session.grant.sees_namespace)
            data["answer"] = None if data["error"] else answer_view(redacted(answer), request.filters)
            data["grades"] = await _grades(visit, answer.request_id)
    return data


async def stored_answer(visit: Visit, request_id: str) -> Answer | None:
    """The answer of a past search; None if it has expired, or if the key may not see it."""
    try:
        visit.session.grant.check_owned(request_id)
        answer = await visit.services.client.of(request_id).answer(request_id)
    except (ChoraleError, OutOfScope):
        return None
    return answer if visit.session.grant.sees_namespace(answer.namespace) else None


async def _answer_before(visit: Visit, request: Request) -> Answer | None:
    """The answer that the address names, if it is to this question and has not expired."""
    if (request_id := visit.parameters.get("request")) is None:
        return None
    answer = await stored_answer(visit, request_id)
    texts = [question.text for question in answer.questions] if answer else []
    return answer if texts == [request.questions[0].text] else None


async def _grades(visit: Visit, request_id: str) -> dict[str, int]:
    """The grades that this key has recorded for the hits; the address names the request only after the first grade."""
    if visit.parameters.get("request") != request_id:
        return {}
    grant, services = visit.session.grant, visit.services
    question = RecordedQuestion.of(await recorded_row(request_id, grant, services), 0)
    return await to_thread.run_sync(grades_of, services.database, question, grant.key_id)


async def grade(visit: Visit, form: Mapping[str, str]) -> str:
    """Records the grade of a hit, and returns the path of the page with the same answer.  Raises Forbidden, InvalidRequest, Problem."""
    grant, services = visit.session.grant, visit.services
    grant.require("search:run")
    fields = {name: form.get(name, "") for name in ("document_id", "grade")}
    request_id = form.get("request", "")
    event = checked(Event, {"request_id": request_id, "action": "grade", **fields})
    rows = {request_id: await recorded_row(request_id, grant, services)}
    await to_thread.run_sync(record, services.database, [event], rows, grant.key_id, "judge")
    parameters = {name: form[name] for name in PARAMETERS if form.get(name)}
    return f"/search?{urlencode({**parameters, 'request': request_id})}"


async def page_of_namespaces(visit: Visit, limit: int, after: str = "") -> NamespaceList | None:
    """The namespaces that the key may search; None if no sweeper lists them in time."""
    with move_on_after(NAMESPACES_S):
        return await to_thread.run_sync(
            list_namespaces, visit.session.grant, visit.services, limit, after, abandon_on_cancel=True
        )
    return None


def configurations_of(visit: Visit) -> list[str]:
    """The names, first the default one; none if the pipeline file cannot be read here."""
    try:
        pipeline = visit.pipeline
    except WrongDeclaration:
        return []
    first = pipeline.default_configuration
    return [first, *(name for name in pipeline.configurations if name != first)]


async def ask(visit: Visit, request: Request) -> Answer:
    """The answer to the request within the rights of the key.  Raises ChoraleError, OutOfScope."""
    grant, services = visit.session.grant, visit.services
    request = grant.applied(await services.client.with_default_timeout(request))
    await count_cost(visit.request, grant, services.redis, ordinary_calls(request.questions))
    return await services.client.ask(request)


def request_of(form: Mapping[str, str], request_id: str) -> Request:
    """The request that the fields of the form say.  Raises InvalidRequest."""
    options: dict[str, Any] = {
        "namespace": form["namespace"] or "default",
        "request_id": request_id,
        "include": INCLUDE,
        "cache": "bypass",
    }
    if form["configuration"]:
        options["configuration"] = form["configuration"]
    for name, read in (("top_k", int), ("timeout_s", float)):
        if form[name]:
            try:
                options[name] = read(form[name])
            except ValueError:
                raise InvalidRequest(f"{name}: not a number: {form[name][:40]!r}") from None
    if form["filters"]:
        try:
            options["filters"] = json.loads(form["filters"])
        except (ValueError, RecursionError):
            raise InvalidRequest('filters: not a JSON object such as {"year": {"gte": 2026}}') from None
    return make_request(form["q"], **options)


def answer_view(answer: Answer, filters: Mapping[str, Any]) -> dict[str, Any]:
    question = answer.questions[0] if answer.questions else QuestionAnswer(status=answer.status)
    with_hits = dict.fromkeys(name for hit in question.hits for name in hit.branches)
    searched = _searched(answer) or list(with_hits)
    branches = [name for name in searched if name in with_hits]
    # All branches are numbered, so that the colour of a branch does not depend on what other branches found.
    bars = score_bars(question.hits, searched)
    return {
        **fields_of(answer, "request_id", "namespace", "configuration", "method", "status", "took_ms"),
        **fields_of(answer, "top_k", "depth", "rerank_depth"),
        **fields_of(question, "confidence", "total_matches", "removed"),
        "degraded": degraded_view(**answer.model_dump(include=MISSING)),
        "warnings": list(answer.warnings),
        "branches": branches,
        "hits": [hit_view(hit, row, filters) for hit, row in zip(question.hits, bars, strict=True)],
        "chart": _chart(question.hits[:MOST_LINES], branches),
    }


def _searched(answer: Answer) -> list[str]:
    prefix = "search."
    return [line.stage.removeprefix(prefix) for line in answer.stages if line.stage.startswith(prefix)]


def degraded_view(
    degraded: Sequence[Mapping[str, Any]], stages: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The parts that an answer (as JSON) or a request of the trail lacks, each with its reason and the milliseconds that it had."""
    ms = {line["stage"]: line.get("ms") for line in stages}
    return [
        {
            "where": part["where"],
            "reason": part["reason"],
            "detail": part.get("detail", ""),
            "meaning": consequence(part["reason"]).when,
            "may_pass": consequence(part["reason"]).is_retryable,
            "ms": ms.get(part["where"]),
        }
        for part in degraded
    ]


def hit_view(hit: Hit, bars: Sequence[Mapping[str, Any]], filters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **fields_of(
            hit, "rank", "document_id", "passage_id", "score", "score_kind", "boosts", "pinned", "metadata"
        ),
        "title": hit.title or hit.document_id,
        "url": hit.url if (hit.url or "").startswith(("http://", "https://")) else None,
        "fused_score": fused_score(hit),
        "facets": _facets(hit.metadata or {}, filters),
        "bars": bars,
        "boost": prod(hit.boosts.values()),
        "rerank": hit.rerank and fields_of(hit.rerank, "stage", "score"),
        "folded": [fields_of(copy, "document_id", "why") for copy in hit.folded],
        "snippet": marked(hit.snippet),
    }


def _facets(metadata: Mapping[str, Any], filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The short values of a hit's metadata, each with the filters of the search and itself."""
    values = [
        (name, value)
        for name, listed in metadata.items()
        for value in (listed if isinstance(listed, list) else [listed])
        if isinstance(value, str | int | float) and len(str(value)) <= _FACET_CHARS
    ]
    return [
        {"name": name, "value": value, "filters": json.dumps({**filters, name: value}, ensure_ascii=False)}
        for name, value in values[:_FACETS]
    ]


def marked(snippet: Snippet | None) -> list[dict[str, Any]]:
    """The snippet in parts, of which some are highlighted."""
    if snippet is None:
        return []
    parts, at = [], 0
    for start, end in snippet.highlights:
        parts += [
            {"text": snippet.text[at:start], "is_marked": False},
            {"text": snippet.text[start:end], "is_marked": True},
        ]
        at = end
    return [part for part in (*parts, {"text": snippet.text[at:], "is_marked": False}) if part["text"]]


def _chart(hits: Sequence[Hit], branches: Sequence[str]) -> dict[str, Any] | None:
    """The hits in each branch, fused, and as they were answered if a later stage moved them."""
    fused = sorted(hits, key=lambda hit: -fused_score(hit))
    answered = {hit.document_id: place for place, hit in enumerate(hits, start=1)}
    is_moved = [*answered] != [hit.document_id for hit in fused]
    titles = {hit.document_id: hit.title for hit in hits}
    return rank_chart(fused, branches, titles, answered if is_moved else None)


PAGES = (Page("/search", "Search", "search.html", show, ("search:run",), post=grade),)
