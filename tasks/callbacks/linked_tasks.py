"""Reads `link`, `link_error` and the rest of a chain from Celery's message.

Celery would send these tasks when `chorale.retrieve` returns, which is long before the request has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from chorale_client.callbacks import Headers, Linked
from chorale_client.errors import InvalidRequest, display_name
from pydantic import TypeAdapter, ValidationError

Signature = Mapping[str, Any]

OF_THE_PROTOCOL = {
    "lang", "task", "id", "root_id", "parent_id", "group", "group_index", "meth", "shadow", "eta", "expires", "retries",
    "timelimit", "argsrepr", "kwargsrepr", "origin", "ignore_result", "replaced_task_nesting", "stamped_headers",
    "stamps", "compression", "headers",
}  # fmt: skip
"""The headers of Celery's task protocol 2."""
HEADERS = TypeAdapter[dict[str, Any]](Headers)
READ = {"queue", "task_id", "ignore_result", "link", "link_error"}
OF_THE_SENDER = {"reply_to", "group_id", "group_index", "root_id", "parent_id", "stamped_headers", "stamps"}
"""Options that Celery adds, and which say nothing about how to send the task."""
OF_CHORALE = {"retry", "retry_policy"}
"""Options that are left out, because Chorale tries to send for a day anyway."""


def is_followed(message: Any) -> bool:
    """Whether Celery would send a task after this one."""
    return bool(message.callbacks or message.errbacks or message.chain)


@dataclass(frozen=True, slots=True)
class LinkedTasks:
    """What follows a request: the tasks to send, the headers that they get, and why others are not sent."""

    linked: tuple[Linked, ...] = ()
    headers: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


def linked_tasks(message: Any, queues: Sequence[str]) -> LinkedTasks:
    """The tasks to send when the request has ended; `message` is Celery's `task.request`.

    A signature without a queue goes to the first of `queues`.  One with an option that is not passed on is refused alone.
    Raises InvalidRequest.
    """
    if message.chord:
        raise InvalidRequest(
            "chord: a request cannot be part of a chord; ask several questions in one request, or begin the chord in a "
            "task that `link` or `on_end` names"
        )
    try:
        chain = list(message.chain or ())
        read = [
            *_read(message.callbacks or (), (), queues, "answer"),
            *_read(chain[-1:], chain[:-1], queues, "answer"),
            *_read(message.errbacks or (), (), queues, "request_id"),
        ]
        linked = (
            Linked(**{**dict(one), "root_id": message.root_id}) for one in read if not isinstance(one, str)
        )
        refused = [one for one in read if isinstance(one, str)]
        headers: Mapping[str, Any] = {}
        try:
            headers = HEADERS.validate_python(own_headers(message.headers or {}))
        except ValidationError as error:
            refused.append(f"headers are not passed on: {InvalidRequest.from_validation(error)}")
        return LinkedTasks(tuple(linked), headers, tuple(refused))
    except ValidationError as error:
        raise InvalidRequest(f"link: {InvalidRequest.from_validation(error)}") from None
    except (KeyError, AttributeError, TypeError) as error:
        raise InvalidRequest(f"link: no signature of Celery: {error!r}") from None


def own_headers(headers: Mapping[str, Any]) -> dict[str, Any]:
    """The headers without those of Celery's protocol, which would change the task that is sent."""
    return {name: value for name, value in headers.items() if name not in OF_THE_PROTOCOL}


def _read(
    signatures: Iterable[Signature],
    rest: Sequence[Signature],
    queues: Sequence[str],
    first: Literal["answer", "request_id"],
) -> Iterator[Linked | str]:
    """Yields a task for each signature, or the reason why the signature is refused."""
    for signature in signatures:
        kind = signature.get("subtask_type")
        if kind == "chain":
            begin, *others = signature["kwargs"]["tasks"] or [{}]
            yield from _read([begin], [*rest, *reversed(others)], queues, first)
        elif kind == "group" and not rest:
            yield from _read(signature["kwargs"]["tasks"], (), queues, first)
        elif kind:
            raise InvalidRequest(
                f"link: a {kind} cannot follow a request; begin it in a task of yours that follows the request"
            )
        else:
            try:
                yield _linked(signature, rest, queues, first)
            except ValidationError as error:
                name = display_name(signature["task"])
                yield f"link: {name} is not sent: {InvalidRequest.from_validation(error)}"


def _linked(
    signature: Signature,
    rest: Sequence[Signature],
    queues: Sequence[str],
    first: Literal["answer", "request_id"],
) -> Linked:
    options = signature.get("options") or {}
    return Linked(
        task=signature["task"],
        queue=options.get("queue") or (queues[0] if queues else "celery"),
        first=None if signature.get("immutable") else first,
        is_for_errors=first == "request_id",
        args=signature.get("args") or (),
        kwargs=signature.get("kwargs") or {},
        options={
            name: value for name, value in options.items() if name not in READ | OF_THE_SENDER | OF_CHORALE
        },
        task_id=options.get("task_id"),
        ignore_result=bool(options.get("ignore_result")),
        chain=tuple(rest),
        link=options.get("link") or (),
        link_error=options.get("link_error") or (),
    )
