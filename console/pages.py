"""What every page has: the visit that it answers, its data, and the form in which it is sent: HTML, or JSON with `.json`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from chorale_client.errors import InvalidRequest, describe_faults
from chorale_client.tenants import short_id
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from api.services import Services
from config.declarations import Pipeline
from console.sessions import PATH, Session

M = TypeVar("M", bound=BaseModel)

FOLDER = Path(__file__).parent
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Of every response of the console."""


@dataclass(frozen=True)
class Visit:
    """A request for a page by a key that has logged in."""

    request: Request
    services: Services
    session: Session
    files: Sequence[tuple[str, bytes]] = ()
    """Name and content of each file of the form."""

    @cached_property
    def pipeline(self) -> Pipeline:
        """Raises WrongDeclaration."""
        # A process whose console nobody opens does not load the kinds of stores.
        from tasks.wiring.pipeline import load_pipeline

        return load_pipeline(self.services.settings.pipeline_file)

    @property
    def parameters(self) -> Mapping[str, str]:
        """Those of the address, without empty ones; of several with one name the last."""
        return {name: value for name, value in self.request.query_params.items() if value != ""}


def checked(model: type[M], fields: Mapping[str, Any], place: str = "form") -> M:
    """The fields that a visitor has sent, as this model.  Raises InvalidRequest, which names `place`, the form or the file."""
    try:
        return model.model_validate(fields, strict=False)
    except ValidationError as error:
        raise InvalidRequest(describe_faults(error.errors(), place=place)) from None


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """The fields of these names, for the JSON of a page."""
    return {name: getattr(value, name) for name in names}


PageData = Callable[[Visit], Awaitable[Mapping[str, Any] | Response]]
PageAction = Callable[[Visit, Mapping[str, str]], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the console; the names in braces of its path are parameters."""

    path: str
    title: str
    template: str
    data: PageData
    """What the page shows, which is sent as it is for `.json`; or the whole response."""
    scopes: tuple[str, ...]
    """The key needs one of these."""
    is_listed: bool = True
    """Whether the navigation names it."""
    post: PageAction | None = None
    """What a form of the page does, given its fields; returns the path below `/console` that is shown next.  An action that
    changes the installation ends with `records.keys.changes.record`."""
    most_bytes: int | None = None
    """Of a form with files; other forms have none."""


def _moment(at_ms: float | None) -> str:
    return "" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _address(path: str, parameters: Mapping[str, Any], **changes: Any) -> str:
    """The path with these parameters; a change to None leaves its parameter out."""
    changed = {name: value for name, value in {**parameters, **changes}.items() if value not in (None, "")}
    return f"{path}?{urlencode(changed)}" if changed else path


_TEMPLATES = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["moment"] = _moment
_TEMPLATES.filters["short_id"] = short_id
_TEMPLATES.globals["address"] = _address


def html(template: str, status: int = 200, **values: Any) -> Response:
    text = _TEMPLATES.get_template(template).render(root=PATH, **values)
    return Response(text, status, headers=HEADERS, media_type="text/html")


def json(data: Mapping[str, Any], status: int = 200) -> Response:
    return Response(
        to_json(data, inf_nan_mode="null"), status, headers=HEADERS, media_type="application/json"
    )
