"""What a key may do.  Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chorale_client.errors import InvalidRequest, safe_repr
from chorale_client.filters import check_filters, is_deeper
from chorale_client.limits import MAX_FILTER_DEPTH
from chorale_client.request import RELAXABLE_FILTER, Request
from chorale_client.tenants import owned, tenant_of

from models.errors import ServiceError

SCOPES = ("search:run", "search:read", "documents:write", "jobs:write", "audit:read", "admin")
"""`admin` includes the others."""


class Forbidden(ServiceError):
    """The key lacks the scope that this call needs."""

    def __init__(self, scope: str, where: str = "") -> None:
        super().__init__(f"this key lacks the scope {scope!r}{where}")


class OutOfScope(ServiceError):
    """The key may not learn whether this exists: the error is the same as for something that does not exist."""


class NamespaceOutOfScope(OutOfScope):
    def __init__(self, namespace: str) -> None:
        super().__init__(f"there is no namespace {namespace!r} for this key")


class OverLimit(InvalidRequest):
    """A field of the request is over this key's maximum."""

    def __init__(self, name: str, value: float, maximum: float) -> None:
        super().__init__(f"{name}: {value:g} is more than this key allows; its maximum is {maximum:g}")


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of one key."""

    key_id: str
    tenant: str
    namespaces: frozenset[str] | None
    """None: every namespace."""
    scopes: frozenset[str]
    filters: Mapping[str, Any] = field(default_factory=dict)
    """Every search finds only documents that meet these conditions, whatever it asks for."""
    max_top_k: int | None = None
    max_depth: int | None = None
    max_questions: int | None = None
    max_timeout_s: float | None = None
    requests_per_minute: int | None = None
    weight: float = 1.0
    """The tenant's share of the lines of bulk jobs."""

    def require(self, scope: str) -> None:
        """Raises Forbidden."""
        if not {scope, "admin"} & self.scopes:
            raise Forbidden(scope)

    @property
    def is_operators(self) -> bool:
        """Whether the key is for the whole installation: it sees every tenant's audit trail, and the metrics."""
        return "admin" in self.scopes and self.namespaces is None

    def require_operators(self) -> None:
        """Raises Forbidden."""
        if not self.is_operators:
            raise Forbidden("admin", " for every namespace")

    def sees_namespace(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces

    def check_namespace(self, namespace: str) -> None:
        """Raises NamespaceOutOfScope, whether or not there is such a namespace."""
        if not self.sees_namespace(namespace):
            raise NamespaceOutOfScope(namespace)

    @property
    def sees_whole_namespaces(self) -> bool:
        """Whether figures of a whole namespace, such as its number of documents, may be shown."""
        return not self.filters

    def new_id(self, id_: str | None = None) -> str:
        """`id_` as an id of this key's tenant; without `id_` a new id."""
        return owned(self.tenant, id_ or uuid.uuid4().hex)

    def owns(self, id_: str) -> bool:
        return tenant_of(id_) == self.tenant

    def check_owned(self, id_: str) -> None:
        """Raises OutOfScope, whether or not there is something with this id."""
        if not self.owns(id_):
            raise OutOfScope(f"nothing is known of {id_[:80]!r}")

    def applied(self, request: Request) -> Request:
        """The request within this grant (see `narrowed`).  Raises OutOfScope unless its id is one of the tenant's."""
        self.check_owned(request.request_id)
        return self.narrowed(request)

    def narrowed(self, request: Request) -> Request:
        """The request with its filters narrowed and its values checked.  Its id is not checked: a line of a job has none.

        A value that the caller left to its default is lowered to the maximum; one that the caller chose raises
        OverLimit.  The request must have its configuration's own time limit already
        (`chorale_client.default_timeout`).  Raises OutOfScope for a namespace outside this grant, Forbidden if the
        request has `on_end` and the key lacks the scope `admin`, and InvalidRequest for a filter that is nested too deep.
        """
        for name in ("linked", "headers"):
            if getattr(request, name):
                raise InvalidRequest(f"{name}: unknown field")
        if request.on_end is not None:
            self.require("admin")
        self.check_namespace(request.namespace)
        changed = self._limited(request)
        if self.filters:
            changed["filters"] = with_forced_filters(self.filters, request.filters)
            forced = {f"{RELAXABLE_FILTER}{name}" for name in self.filters}
            changed["relax"] = tuple(name for name in request.relax if name not in forced)
        elif any(map(_is_all, request.filters.values())):
            changed["filters"] = _checked(
                {
                    name: {"all": [_ANYTHING, *condition["all"]]} if _is_all(condition) else condition
                    for name, condition in request.filters.items()
                }
            )
        return request.model_copy(update=changed) if changed else request

    def _limited(self, request: Request) -> dict[str, Any]:
        lowered: dict[str, Any] = {}
        if self.max_questions is not None and len(request.questions) > self.max_questions:
            raise OverLimit("questions", len(request.questions), self.max_questions)
        if self.max_depth is not None and "top_k" not in request.model_fields_set:
            lowered["top_k"] = min(request.top_k, self.max_depth)
        for name, maximum in (
            ("top_k", self.max_top_k),
            ("depth", self.max_depth),
            ("timeout_s", self.max_timeout_s),
        ):
            if maximum is None:
                continue
            value = getattr(request, name)
            if name not in request.model_fields_set:
                lowered[name] = min(lowered.get(name, value), maximum)
            elif value > maximum:
                raise OverLimit(name, value, maximum)
        within = request.model_copy(update=lowered)
        if self.max_depth is not None and within.effective_depth > self.max_depth:
            # A long page makes every branch look deeper.
            raise OverLimit("top_k", within.top_k, self.max_depth)
        return lowered


_ANYTHING: Mapping[str, Any] = {"not": []}
"""The condition that every document meets: the first part of an `all` without a forced one."""


def with_forced_filters(forced: Mapping[str, Any], requested: Mapping[str, Any]) -> dict[str, Any]:
    """The filters whose documents meet `forced` and `requested`.

    `all` joins the conditions on one field as they are, so neither can change the other's meaning.  It also keeps a store
    from saying whether some document of the namespace has the field, which could be another tenant's.  Its first part is
    the forced one, which is compared exactly; the others are compared by the meaning of their values
    (`search.filter_meanings`).
    """
    deepest = MAX_FILTER_DEPTH - 2  # `all` and its list
    for name, condition in requested.items():
        if is_deeper(condition, deepest):
            raise InvalidRequest(f"filters: {safe_repr(name)} is nested deeper than {deepest} levels")
    return _checked(
        {
            name: {"all": [forced.get(name, _ANYTHING), *([requested[name]] if name in requested else ())]}
            for name in {**forced, **requested}
        }
    )


def _is_all(condition: Any) -> bool:
    return isinstance(condition, Mapping) and [*condition] == ["all"]


def _checked(filters: dict[str, Any]) -> dict[str, Any]:
    try:
        return check_filters(filters)
    except ValueError as error:
        raise InvalidRequest(f"filters: with those of the key, {error}") from None
