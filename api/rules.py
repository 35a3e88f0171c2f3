"""The rules of a namespace: pinned and blocked documents, and synonyms.

Whoever may write the documents of a namespace may write its rules: they can do no more harm than deleted documents.  A key
with a filter has neither right.
"""

from __future__ import annotations

from typing import Annotated

from chorale_client.limits import MAX_RULES_BYTES
from fastapi import APIRouter, Depends, Header, Query, Response
from pydantic import BaseModel, Field
from redis.exceptions import RedisError

from api.caller import Caller, KeyFirst
from api.namespaces import Name, get_namespace
from api.problems import Problem
from api.services import Services, ServicesDep
from api.timestamps import Timestamp, at
from models.rules import Rules
from records.keys.grant import Grant
from records.rules.store import RuleStore, Version, copy_rules

router = APIRouter(prefix="/v1/namespaces/{namespace}/rules", tags=["rules"], route_class=KeyFirst)

LARGEST_BODY = 4 * MAX_RULES_BYTES
"""Bytes: a body may have spaces and fields with their defaults."""
MOST_CHANGES = 100

Writer = Annotated[Grant, Depends(Caller("documents:write"))]


class RuleSet(BaseModel):
    namespace: str
    version: int = Field(description="Rises with each change; 0 if nobody has written rules yet")
    changed_at: Timestamp | None = Field(description="Null if nobody has written rules yet")
    changed_by: str
    rules: Rules


class RuleHistory(BaseModel):
    changes: list[RuleSet] = Field(description="Newest first")


@router.get("", response_model=RuleSet, responses={304: {"description": "The rules still have this version"}})
def get_rules(
    namespace: Name,
    grant: Writer,
    services: ServicesDep,
    response: Response,
    if_none_match: Annotated[str | None, Header(description="The `ETag` of a response before")] = None,
) -> RuleSet | Response:
    """Show the rules of a namespace."""
    get_namespace(namespace, grant, services)
    version = RuleStore(services.database).current(namespace)
    if _tag(version) in [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]:
        return Response(status_code=304, headers={"ETag": _tag(version)})
    response.headers["ETag"] = _tag(version)
    return _rule_set(version)


@router.put("", max_body_size=LARGEST_BODY)
def put_rules(
    namespace: Name,
    body: Rules,
    grant: Writer,
    services: ServicesDep,
    response: Response,
    if_match: Annotated[
        str | None,
        Header(description="An `ETag`: the rules are written only if they still have this version"),
    ] = None,
) -> RuleSet:
    """Replace all rules of a namespace.  Searches that come a second later follow them."""
    get_namespace(namespace, grant, services)
    store = RuleStore(services.database)
    expected = None if if_match is None or if_match.strip() == "*" else _version(if_match)
    written = store.change(
        namespace, lambda _: body, by=f"key {grant.key_id} of {grant.tenant}", expected=expected
    )
    _copy(services, store, namespace)
    response.headers["ETag"] = _tag(written)
    return _rule_set(written)


@router.get("/history")
def get_history_of_rules(
    namespace: Name,
    grant: Writer,
    services: ServicesDep,
    count: Annotated[int, Query(ge=1, le=MOST_CHANGES)] = 10,
) -> RuleHistory:
    """Show who has changed the rules, when, and what they were then."""
    get_namespace(namespace, grant, services)
    changes = RuleStore(services.database).history(namespace, count)
    return RuleHistory(changes=[_rule_set(version) for version in changes])


def _copy(services: Services, store: RuleStore, namespace: str) -> None:
    """To every cell.  The sweeper of a lost one copies them when the cell is back.  Raises RedisError if all are lost."""
    failures = []
    cells = services.blocking_redis.by_name
    for redis in cells.values():
        try:
            copy_rules(redis, store, namespace)
        except RedisError as error:
            failures.append(error)
    if len(failures) == len(cells):
        raise failures[0]


def _rule_set(version: Version) -> RuleSet:
    return RuleSet(
        namespace=version.namespace,
        version=version.version,
        changed_at=at(version.changed_at_ms) if version.version else None,
        changed_by=version.changed_by,
        rules=version.rules,
    )


def _tag(version: Version) -> str:
    return f'"{version.version}"'


def _version(header: str) -> int:
    """Raises Problem: no version but a number was ever an `ETag` of rules."""
    number = header.strip().removeprefix("W/").strip('"')
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise Problem("malformed", 'If-Match: one ETag of these rules, such as "7", or *', field="If-Match")
    return int(number)
