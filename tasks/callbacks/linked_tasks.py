"""Reads `link`, `link_error` and the rest of a chain from Celery's message.

Celery would send these tasks when `chorale.retrieve` returns, which is long before the request has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from chorale_client.callbacks import Linked
from chorale_client.errors import InvalidRequest
from pydantic import ValidationError

Signature = Mapping[str, Any]

READ = {"queue", "task_id", "ignore_result", "link", "link_error"}
OF_THE_SENDER = {"reply_to", "group_id", "group_index", "root_id", "parent_id", "stamped_headers", "stamps"}
"""Options that Celery adds, and which say nothing about how to send the task."""


def is_followed(message: Any) -> bool:
    """Whether Celery would send a task after this one."""
    return bool(message.callbacks or message.errbacks or message.chain)


def linked_tasks(message: Any, queues: Sequence[str]) -> tuple[Linked, ...]:
    """The tasks to send when the request has ended; `message` is Celery's `task.request`.

    A signature without a queue goes to the first of `queues`.  Raises InvalidRequest.
    """
    if message.chord:
        raise InvalidRequest(
            "chord: a request cannot be part of a chord; ask several questions in one request, or begin the chord in a "
            "task that `link` or `on_end` names"
        )
    try:
        chain = list(message.chain or ())
        tasks = [
            *_read(message.callbacks or (), (), queues, "answer"),
            *_read(chain[-1:], chain[:-1], queues, "answer"),
            *_read(message.errbacks or (), (), queues, "request_id"),
        ]
        return tuple(Linked(**{**dict(task), "root_id": message.root_id}) for task in tasks)
    except ValidationError as error:
        raise InvalidRequest(f"link: {InvalidRequest.from_validation(error)}") from None
    except (KeyError, AttributeError, TypeError) as error:
        raise InvalidRequest(f"link: no signature of Celery: {error!r}") from None


def _read(
    signatures: Iterable[Signature],
    rest: Sequence[Signature],
    queues: Sequence[str],
    first: Literal["answer", "request_id"],
) -> Iterator[Linked]:
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
            yield _linked(signature, rest, queues, first)


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
        options={name: value for name, value in options.items() if name not in READ | OF_THE_SENDER},
        task_id=options.get("task_id"),
        ignore_result=bool(options.get("ignore_result")),
        chain=tuple(rest),
        link=options.get("link") or (),
        link_error=options.get("link_error") or (),
    )
