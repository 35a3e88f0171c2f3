"""Namespaces, and the documents in them.  What changes them is done by index workers: the response is a ticket."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

from chorale_client.errors import NotEnded
from chorale_client.index_tickets import namespace_of
from chorale_client.limits import MAX_DOCUMENTS
from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from api.caller import Caller, KeyFirst
from api.problems import not_found
from api.services import Services, ServicesDep
from records.keys.grant import Grant, NamespaceOutOfScope
from records.keys.redaction import redacted_index_report

router = APIRouter(prefix="/v1/namespaces", tags=["namespaces"], route_class=KeyFirst)

LARGEST_MESSAGE = 32 * 1024 * 1024
"""Bytes of documents in one call."""
MOST_IDS = 200

Reader = Annotated[Grant, Depends(Caller("search:run", "search:read", "documents:write"))]
Writer = Annotated[Grant, Depends(Caller("documents:write"))]
Admin = Annotated[Grant, Depends(Caller("admin"))]
Name = Annotated[str, Path(max_length=256)]


class NamespaceSummary(BaseModel):
    name: str
    documents: int | None = Field(
        description="Null for a key with a filter, which sees a part of the namespace"
    )
    passages: int | None
    generation: int | None = Field(description="Rises with each change")


class NamespaceList(BaseModel):
    namespaces: list[NamespaceSummary]
    next: str | None = Field(description="`after` of the next page; null on the last page")


class Document(BaseModel):
    """A document; further fields are metadata."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(min_length=1)
    title: str = ""
    text: str
    metadata: dict[str, Any] = Field(default_factory=dict)
    markup: Literal["plain", "markdown"] | None = Field(
        None, description="By default headings in the text decide"
    )
    page_starts: list[int] | None = Field(
        None, description="Offsets of its pages in its text, in characters; hits then have `pages`"
    )


class Documents(BaseModel):
    model_config = ConfigDict(extra="forbid")

    documents: list[Document] = Field(min_length=1, max_length=MAX_DOCUMENTS)
    encoder: str | None = Field(
        None,
        min_length=1,
        max_length=256,
        description="A declared encoder, for a namespace that is not there yet; another one than that of a namespace fails",
    )


class Ticket(BaseModel):
    ticket: str


class Outcome(BaseModel):
    """Documents that are not in `skipped` or `unwritten` can be found, or are gone."""

    model_config = ConfigDict(from_attributes=True)

    generation: int
    added: int
    replaced: int
    unchanged: int
    deleted: int
    passages: int
    skipped: list[str] = Field(description="What was left out, each with its reason")
    reasons: dict[str, int] = Field(description="How many of `skipped` by reason")
    unwritten: dict[str, str] = Field(description="Why a document is not in every store yet, by its id")


class TicketState(BaseModel):
    ticket: str
    state: Literal["waiting", "done", "failed"]
    why: str = Field("", description="Why it waits, or has failed")
    outcome: Outcome | None = Field(None, description="Null while it waits")


@router.get("")
def list_namespaces(
    grant: Reader,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 1_000,
    after: Annotated[str, Query(max_length=256, description="`next` of the page before")] = "",
) -> NamespaceList:
    """List the namespaces that this key may search, in the order of their names."""
    rest = _visible(grant, services, grant.namespaces, after=after, limit=limit + 1)
    return NamespaceList(namespaces=rest[:limit], next=rest[limit - 1].name if len(rest) > limit else None)


@router.get("/{namespace}")
def get_namespace(namespace: Name, grant: Reader, services: ServicesDep) -> NamespaceSummary:
    """Show a namespace."""
    grant.check_namespace(namespace)
    for visible in _visible(grant, services, [namespace]):
        return visible
    raise NamespaceOutOfScope(namespace)


@router.delete("/{namespace}", status_code=202)
def delete_namespace(namespace: Name, grant: Admin, services: ServicesDep, response: Response) -> Ticket:
    """Delete a namespace with everything in it."""
    get_namespace(namespace, grant, services)
    return _ticket(
        services.writers.writer(namespace).delete_namespace(namespace, tenant=grant.tenant),
        namespace,
        response,
    )


@router.post("/{namespace}/documents", status_code=202, tags=["documents"], max_body_size=LARGEST_MESSAGE)
def upsert_documents(
    namespace: Name, body: Documents, grant: Writer, services: ServicesDep, response: Response
) -> Ticket:
    """Hand in documents, which replace those with the same ids.  The namespace is made if it is not there."""
    grant.check_namespace(namespace)
    documents = [document.model_dump(exclude_unset=True, exclude_none=True) for document in body.documents]
    client, encoder = services.writers.writer(namespace), body.encoder
    ticket = client.upsert(namespace, documents, encoder=encoder, tenant=grant.tenant)
    return _ticket(ticket, namespace, response)


@router.delete("/{namespace}/documents", status_code=202, tags=["documents"])
def delete_documents(
    namespace: Name,
    grant: Writer,
    services: ServicesDep,
    response: Response,
    ids: Annotated[list[str], Query(alias="id", min_length=1, max_length=MOST_IDS)],
) -> Ticket:
    """Delete documents; an id that is not there does no harm."""
    grant.check_namespace(namespace)
    return _ticket(
        services.writers.writer(namespace).delete(namespace, ids, tenant=grant.tenant), namespace, response
    )


@router.get("/{namespace}/tickets/{ticket}", tags=["documents"])
def get_ticket(
    namespace: Name, ticket: str, grant: Writer, services: ServicesDep, response: Response
) -> TicketState:
    """Show what has become of documents that were handed in.  An outcome is kept for an hour."""
    grant.check_owned(ticket)
    grant.check_namespace(namespace)
    if namespace_of(ticket) != namespace:
        raise not_found()
    try:
        outcome = services.writers.writer(namespace).wait_visible(ticket, wait_s=0)
    except NotEnded as error:
        response.headers["Retry-After"] = "1"
        why = str(error) if grant.is_operators else f"{ticket} is not indexed yet; ask again"
        return TicketState(ticket=ticket, state="waiting", why=why)
    if not grant.is_operators:
        outcome = redacted_index_report(outcome)
    if outcome.error is not None:
        return TicketState(ticket=ticket, state="failed", why=outcome.error)
    return TicketState(ticket=ticket, state="done", outcome=Outcome.model_validate(outcome))


def _visible(
    grant: Grant, services: Services, names: Collection[str] | None, *, after: str = "", limit: int = 1
) -> list[NamespaceSummary]:
    cell = services.blocking_redis.answering(after)
    states = services.blocking_clients[cell].namespaces(after=after, limit=limit, names=names)
    figures = ("documents", "passages", "generation")
    is_whole = grant.sees_whole_namespaces
    return [
        NamespaceSummary(
            name=state.name, **{name: getattr(state, name) if is_whole else None for name in figures}
        )
        for state in states
    ]


def _ticket(ticket: str, namespace: str, response: Response) -> Ticket:
    response.headers["Location"] = f"/v1/namespaces/{namespace}/tickets/{ticket}"
    return Ticket(ticket=ticket)
