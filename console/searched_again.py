"""A past request searched again, with the rights of now and the index of now, and how its answer differs from the recorded one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from anyio import to_thread
from chorale_client.answer import Answer
from chorale_client.errors import InvalidRequest
from chorale_client.request import Request
from pydantic import ValidationError

from api.audit import visible_row
from api.problems import Problem
from console.pages import Visit
from console.search import INCLUDE, MISSING, ask, degraded_view, stored_answer
from models.tables.audit import RequestRow
from records.keys.redaction import redacted, unknown_namespace

_OWN_OPTIONS = (
    *("v", "request_id", "correlation_id", "tags", "traceparent", "on_end", "linked", "now"),
    *("cache", "include"),
)
_CONFIGURATION_OPTIONS = ("fusion", "weights", "branches", "require", "min_branches", "rerank")


async def search_again(visit: Visit, form: Mapping[str, str]) -> str:
    """Raises Forbidden, InvalidRequest, OutOfScope, Problem, ChoraleError."""
    grant = visit.session.grant
    grant.require("search:run")
    request_id = visit.request.path_params["request_id"]
    row = await to_thread.run_sync(visible_row, grant, visit.services, request_id)
    answer = await ask(visit, request_of(row, grant.new_id(), form.get("configuration") or None))
    if (missing := unknown_namespace(answer, grant.sees_namespace)) is not None:
        raise Problem("not_found", missing)
    return f"/requests/{quote(request_id, safe='')}?{urlencode({'again': answer.request_id})}"


def request_of(row: RequestRow, request_id: str, configuration: str | None) -> Request:
    """The request that the row has, under its own configuration or another.  Raises InvalidRequest."""
    if any(question.text is None for question in row.questions):
        raise InvalidRequest("the trail keeps no texts, so the question cannot be asked again")
    excluded = _OWN_OPTIONS if configuration is None else (*_OWN_OPTIONS, *_CONFIGURATION_OPTIONS)
    options = {name: value for name, value in row.options.items() if name not in excluded}
    if configuration is not None:
        options["configuration"] = configuration
    questions = [{"text": question.text, **(question.rewrites or {})} for question in row.questions]
    options |= {"questions": questions, "request_id": request_id, "cache": "bypass", "include": INCLUDE}
    try:
        return Request.model_validate(options, strict=False)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None


async def difference(visit: Visit, row: RequestRow, request_id: str) -> dict[str, Any]:
    """The answer of the request with this id beside the recorded one.  Raises Problem."""
    new: Answer | RequestRow | None = await stored_answer(visit, request_id)
    if new is None:
        new = await to_thread.run_sync(visible_row, visit.session.grant, visit.services, request_id)
    questions: Sequence[Any] = new.questions
    return {
        "request_id": request_id,
        "status": new.status,
        "configuration": new.configuration,
        "took_ms": new.took_ms,
        "degraded": degraded_view(**redacted(new).model_dump(include=MISSING))
        if isinstance(new, Answer)
        else degraded_view(new.degraded, new.stages),
        "questions": [
            {
                "text": question.text,
                "hits": moves(
                    {hit.document_id: hit.rank for hit in question.hits},
                    {hit.document_id: hit.rank for hit in answered.hits},
                ),
            }
            for question, answered in zip(row.questions, questions, strict=False)
        ],
    }


def moves(was: Mapping[str, int], now: Mapping[str, int]) -> list[dict[str, Any]]:
    """The documents of both lists by their ranks: those of now, then those that are gone."""
    gone = [id_ for id_ in sorted(was, key=was.__getitem__) if id_ not in now]
    return [
        {"document_id": id_, "was": was.get(id_), "now": now.get(id_)}
        for id_ in (*sorted(now, key=now.__getitem__), *gone)
    ]
