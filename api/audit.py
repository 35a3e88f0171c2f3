"""The audit trail: past searches with what each branch found.  A key sees the searches of its tenant; the operator's, all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from chorale_client.tenants import owned
from chorale_client.wire_names import Status
from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from api.caller import Caller, KeyFirst
from api.problems import not_found
from api.services import Services, ServicesDep
from api.timestamps import Timestamp, at, cursor_after, in_utc, read_cursor, rfc3339
from models.tables.audit import RequestRow
from records.audit import queries
from records.keys.grant import Grant
from records.keys.redaction import redact_row, redacted_parts

router = APIRouter(prefix="/v1/audit", tags=["audit"], route_class=KeyFirst)

Auditor = Annotated[Grant, Depends(Caller("audit:read"))]


class AuditLine(BaseModel):
    """A past search in short."""

    request_id: str
    accepted_at: Timestamp
    status: str
    took_ms: float
    namespace: str
    correlation_id: str | None
    configuration: str | None
    ended_by: str
    degraded: list[Any]
    questions: int = Field(description="Number of questions")
    text: str | None = Field(description="The first question; null if texts are not kept")


class AuditPage(BaseModel):
    searches: list[AuditLine]
    next: str | None = Field(description="`after` of the next page; null on the last page")


class AuditedSearch(BaseModel):
    """Everything that the trail has about a search: its options and plan, questions, hits and branches with candidates."""

    model_config = ConfigDict(extra="allow")

    request_id: str
    accepted_at: Timestamp
    ended_at: Timestamp
    ended_by: str
    status: str
    took_ms: float
    namespace: str
    now: Timestamp | None = Field(description="The moment from which recency counts")
    questions: list[dict[str, Any]]
    branches: list[dict[str, Any]]


@router.get("")
def list_past_searches(
    grant: Auditor,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
    after: Annotated[str | None, Query(description="`next` of the page before")] = None,
    correlation_id: Annotated[str | None, Query(max_length=256)] = None,
    status: Status | None = None,
    namespace: Annotated[str | None, Query(max_length=64)] = None,
    missing: Annotated[
        str | None, Query(max_length=256, description="A branch that was missing from the answer")
    ] = None,
    begins: Annotated[str | None, Query(max_length=256, description="The beginning of the ids")] = None,
) -> AuditPage:
    """List past searches, newest first.  A search that has just ended is listed within a second."""
    selection = visible_to(
        grant,
        begins,
        correlation_id=correlation_id,
        status=status,
        namespace=namespace,
        missing=missing,
    )
    rows = queries.last(services.database, limit + 1, selection, after=read_cursor(after))
    more = rows[limit - 1] if len(rows) > limit else None
    return AuditPage(
        searches=[
            AuditLine(**_listed(grant, row), accepted_at=at(row.accepted_at_ms)) for row in rows[:limit]
        ],
        next=None if more is None else cursor_after(more.accepted_at_ms, more.request_id),
    )


@router.get("/{request_id}", response_model=AuditedSearch)
def get_past_search(request_id: str, grant: Auditor, services: ServicesDep) -> Response:
    """Show everything about a past search."""
    row = visible_row(grant, services, request_id)
    return Response(to_json(_document(row), inf_nan_mode="null"), media_type="application/json")


def visible_rows(grant: Grant, services: Services, n: int, **conditions: Any) -> Sequence[RequestRow]:
    """The latest requests that meet the conditions (fields of `Which`), with what their branches reported, and without the hits
    that were answered."""
    rows = queries.last(services.database, n, visible_to(grant, **conditions), with_branches=True)
    return [_redacted_for(grant, row) for row in rows]


def visible_row(grant: Grant, services: Services, request_id: str) -> RequestRow:
    """The request with everything that belongs to it.  An unknown id and another tenant's are the same Problem."""
    # PostgreSQL refuses U+0000.
    may_be = request_id.startswith(_owner(grant)) and "\0" not in request_id
    row = queries.show(services.database, request_id) if may_be else None
    if row is None or not grant.sees_namespace(row.namespace):
        raise not_found()
    return _redacted_for(grant, row)


def _redacted_for(grant: Grant, row: RequestRow) -> RequestRow:
    if not grant.is_operators:
        redact_row(row)
    return row


def _listed(grant: Grant, row: RequestRow) -> dict[str, Any]:
    listed = queries.listed(row)
    return listed if grant.is_operators else {**listed, "degraded": redacted_parts(row.degraded)}


def _document(row: RequestRow) -> dict[str, Any]:
    fields = row.to_dict()
    times = {name: rfc3339(at(fields.pop(f"{name}_ms"))) for name in ("accepted_at", "ended_at")}
    plan, options = (fields[part] and _in_utc(fields[part]) for part in ("plan", "options"))
    return {"request_id": fields["request_id"], **times, **_in_utc(fields), "plan": plan, "options": options}


def _in_utc(part: dict[str, Any]) -> dict[str, Any]:
    """With `now`, which a caller may have given with any zone, in this API's form."""
    return {**part, "now": in_utc(part["now"])} if part.get("now") else part


def visible_to(grant: Grant, begins: str | None = None, **conditions: Any) -> queries.Which:
    """The requests that the key may see, of those that meet the conditions and whose ids begin so, with the tenant's
    part or without."""
    owner = _owner(grant)
    if begins is not None:
        owner = begins if begins.startswith(owner) else owner + begins
    return queries.Which(owner=owner, namespaces=grant.namespaces, **conditions)


def _owner(grant: Grant) -> str:
    """The beginning that all ids have that the key may see."""
    return "" if grant.is_operators else owned(grant.tenant, "")
