"""The namespaces that the key may search, their documents, and a document as it was split.

A sweeper reads them: the process of the API has no documents' database.
"""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from chorale_client.service_calls import ServiceCall
from starlette.responses import Response

from api.namespaces import get_namespace
from api.problems import not_found
from api.rules import RuleSet, get_rules
from console.pages import Page, Visit
from console.recorded import number_of
from console.search import page_of_namespaces
from records.keys.grant import with_forced_filters

CALL_S = 1.0
PAGE = 100
READERS = ("search:run", "search:read", "documents:write")


async def show(visit: Visit) -> dict[str, Any]:
    """`namespaces` is None if no sweeper lists them in time."""
    page = await page_of_namespaces(visit, PAGE, visit.parameters.get("after", ""))
    return {"namespaces": None, "next": None} if page is None else page.model_dump()


async def show_namespace(visit: Visit) -> dict[str, Any]:
    """Documents are shown to a key that may search them, and rules to one that may write them.  Raises Problem."""
    return await to_thread.run_sync(_namespace, visit)


def _namespace(visit: Visit) -> dict[str, Any]:
    grant, services = visit.session.grant, visit.services
    namespace = get_namespace(visit.request.path_params["namespace"], grant, services)
    listing: dict[str, Any] = {"manifest": None, "documents": None, "next": None}
    if visit.session.has("search:run"):
        listing = _read(visit, "namespace", namespace.name, after=visit.parameters.get("after", ""))
        if not grant.sees_whole_namespaces:
            listing["manifest"] = None
    rules = None
    if visit.session.has("documents:write"):
        rules = RuleSet.model_validate(get_rules(namespace.name, grant, services, Response()))
    return {"namespace": namespace.model_dump(), **listing, "rules": rules and rules.model_dump(mode="json")}


async def show_document(visit: Visit) -> dict[str, Any]:
    """The document `id` of the address, with its passages from the position `first` on.  Raises Problem, InvalidRequest."""
    visit.session.grant.check_namespace(namespace := visit.request.path_params["namespace"])
    first = round(number_of({"first": "0", **visit.parameters}, "first", 0, 1_000_000))
    id_ = visit.parameters.get("id", "")
    document = await to_thread.run_sync(read_document, visit, namespace, id_, first)
    return {"namespace": namespace, "first": first, "document": document}


def read_document(visit: Visit, namespace: str, document_id: str, first: int = 0) -> dict[str, Any]:
    """A document with its passages from the position `first` on.  Raises Problem, ServiceUnavailable."""
    return _read(visit, "document", namespace, document_id=document_id, first=first)


def _read(visit: Visit, what: str, namespace: str, **about: Any) -> dict[str, Any]:
    """Only what meets the filters of the key.  Raises Problem for what is not there, and ServiceUnavailable."""
    about |= {"name": namespace, "filters": with_forced_filters(visit.session.grant.filters, {})}
    cells = visit.services.blocking_redis
    redis = cells.by_name[cells.answering(namespace)]
    call = ServiceCall(redis, what, socket_timeout_s=CALL_S, **about)
    result: dict[str, Any] | None = call.result()
    if result is None:
        raise not_found()
    return result


_ONE = "/corpus/{namespace}"
PAGES = (
    Page("/corpus", "Corpus", "corpus.html", show, READERS),
    Page(_ONE, "Namespace", "namespace.html", show_namespace, READERS, is_listed=False),
    Page(f"{_ONE}/document", "Document", "document.html", show_document, ("search:run",), is_listed=False),
)
