"""Haystack's retriever: `pip install -e './client[haystack]'`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from chorale_client.adapters import needs
from chorale_client.adapters.connection import Connection, Retrieved
from chorale_client.adapters.framework_filters import Condition, all_of, condition, negated, refused
from chorale_client.coverage import Coverage
from chorale_client.request_factory import RequestOptions

with needs("haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.utils import Secret

URL_VARIABLE = "CHORALE_REDIS_URL"


@component
class ChoraleRetriever:
    """A `TextRetriever` with the further output `coverage`.

    `filters` are those of Haystack, or those of a request; the filters of a call replace those of `options`.
    """

    def __init__(
        self,
        redis_url: str | Secret | None = None,
        *,
        broker_url: str | Secret | None = None,
        options: RequestOptions | None = None,
    ) -> None:
        """Without `redis_url`, the address is in the variable CHORALE_REDIS_URL.

        A pipeline is saved with the variable's name, or with an address that is a text; an address with a password
        should therefore be a Secret.  `options` are fields of `Request` for every call.
        """
        self.redis_url = Secret.from_env_var(URL_VARIABLE) if redis_url is None else redis_url
        self.broker_url = broker_url
        self.options = options or RequestOptions()

    def to_dict(self) -> dict[str, Any]:
        """The component as plain values."""
        return default_to_dict(
            self, redis_url=self.redis_url, broker_url=self.broker_url, options=dict(self.options)
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ChoraleRetriever:
        """The component of `to_dict`."""
        return default_from_dict(cls, data)

    def warm_up(self) -> None:
        """Read the addresses."""
        _ = self._connection

    @cached_property
    def _connection(self) -> Connection:
        return Connection(
            _resolved(self.redis_url) or "", broker_url=_resolved(self.broker_url), options=self.options
        )

    @component.output_types(documents=list[Document], coverage=Coverage)
    def run(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Ask; `options` are fields of `Request` for this call."""
        return _outputs(self._connection.ask(query, _options(filters, top_k), options))

    @component.output_types(documents=list[Document], coverage=Coverage)
    async def run_async(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Like `run`, without blocking the event loop; a cancelled task cancels the request."""
        return _outputs(await self._connection.ask_async(query, _options(filters, top_k), options))


def request_filters(filters: dict[str, Any]) -> dict[str, Any]:
    """Haystack's filters, or a request's own, as a request's.

    Raises InvalidRequest for OR, and for NOT of several fields, which a request cannot express.
    """
    return all_of(_conditions(filters)) if _is_haystack(filters) else filters


def _is_haystack(filters: dict[str, Any]) -> bool:
    return "operator" in filters and ("conditions" in filters or "field" in filters)


def _conditions(filters: dict[str, Any]) -> Iterator[Condition]:
    operator = filters.get("operator", "")
    if "field" in filters:
        yield condition(filters["field"].removeprefix("meta."), operator, filters.get("value"))
        return
    inner = [
        inner_condition for part in filters.get("conditions", ()) for inner_condition in _conditions(part)
    ]
    if operator == "AND":
        yield from inner
    elif operator == "NOT":
        yield negated(inner)
    else:
        raise refused(operator)


def _options(filters: dict[str, Any] | None, top_k: int | None) -> dict[str, Any]:
    options = {"top_k": top_k, "filters": request_filters(filters) if filters is not None else None}
    return {name: value for name, value in options.items() if value is not None}


def _resolved(url: str | Secret | None) -> str | None:
    return url.resolve_value() if isinstance(url, Secret) else url


def _outputs(retrieved: Retrieved) -> dict[str, Any]:
    documents = [
        Document(id=document.passage_id, content=document.text, meta=document.metadata, score=document.score)
        for document in retrieved.documents
    ]
    return {"documents": documents, "coverage": retrieved.coverage}
