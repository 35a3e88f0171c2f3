"""The callbacks of a request or a job at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import to_json


def is_address(text: str) -> bool:
    return is_name(text) and text.isascii() and " " not in text


def is_name(text: str) -> bool:
    """Whether this can be the name of a task or a queue: Celery takes any text."""
    return 0 < len(text) <= 2_000 and text.isprintable()


def check_callback_task(value: Mapping[str, str]) -> Mapping[str, str]:
    if set(value) != {"task", "queue"} or not all(map(is_name, value.values())):
        raise ValueError('takes {"task": name, "queue": name}')
    return value


def _check_name(value: str) -> str:
    if not is_name(value):
        raise ValueError("no name of a task or a queue")
    return value


Name = Annotated[str, AfterValidator(_check_name)]


def _check_option(value: str) -> str:
    if value not in OPTIONS:
        raise ValueError(f"is not passed on; there are: {', '.join(OPTIONS)}")
    return value


def _check_json(value: Any) -> Any:
    try:
        to_json(value)
    except ValueError as error:  # a lone surrogate, which Python's JSON reads and no other JSON can hold
        raise ValueError(f"not JSON: {str(error)[:200]}") from None
    return value


AsJson = AfterValidator(_check_json)

OPTIONS = (
    "countdown",
    "eta",
    "expires",
    "headers",
    "priority",
    "serializer",
    "time_limit",
    "soft_time_limit",
)
Option = Annotated[str, AfterValidator(_check_option)]


def _check_options(value: dict[str, Any]) -> dict[str, Any]:
    if value.get("serializer", "json") != "json":
        raise ValueError("serializer: only json is passed on")
    if not isinstance(value.get("headers") or {}, dict):
        raise ValueError("headers: not an object")
    return value


MAX_HEADERS_BYTES = 16_384


def _check_headers(value: dict[str, Any]) -> dict[str, Any]:
    if len(to_json(value)) > MAX_HEADERS_BYTES:
        raise ValueError(f"more than {MAX_HEADERS_BYTES:,} bytes of JSON")
    return value


Headers = Annotated[dict[str, Any], AsJson, AfterValidator(_check_headers)]


class Linked(BaseModel):
    """A task that Celery would have sent when `chorale.retrieve` returned; it is sent when the request has ended."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    task: Name
    queue: Name
    first: Literal["answer", "request_id"] | None = "answer"
    """What stands before `args`."""
    is_for_errors: bool = False
    """Sent only if the request is `failed`, `cancelled` or `refused`."""
    args: Annotated[tuple[Any, ...], AsJson] = Field((), strict=False)
    kwargs: Annotated[dict[str, Any], AsJson] = Field(default_factory=dict)
    options: Annotated[dict[Option, Any], AsJson, AfterValidator(_check_options)] = Field(
        default_factory=dict
    )
    task_id: str | None = Field(None, max_length=256)
    root_id: str | None = Field(None, max_length=256)
    ignore_result: bool = False
    chain: Annotated[tuple[dict[str, Any], ...], AsJson] = Field((), strict=False)
    """The signatures that come after this task, the last one first, as Celery sends them."""
    link: Annotated[tuple[dict[str, Any], ...], AsJson] = Field((), strict=False)
    link_error: Annotated[tuple[dict[str, Any], ...], AsJson] = Field((), strict=False)
