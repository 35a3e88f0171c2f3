"""The declaration of a JSON search endpoint: how to ask it, and where to find the fields of its answer."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from models import cypher
from models.extensions import Declared, Variable

PLACES = ("question", "depth", "namespace", "key")
"""Placeholders, in braces, of the address, the parameters and the body; other braces stay as they are."""
PLACE = re.compile("{(" + "|".join(PLACES) + ")}")

JsonPath: TypeAlias = Annotated[str, Field(min_length=1)] | Annotated[list[str | int], Field(min_length=1)]
"""A path of names and list positions, such as `items.0.title`; a list of them if a name contains a dot."""

_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")


class HttpEndpoint(Declared):
    """The options of a store of kind `http`."""

    url: str
    """Address, `http://` or `https://`, without a password; redirects are not followed."""
    method: Literal["GET", "POST"] = "GET"
    params: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Parameters that are added to those of the address."""
    body: dict[str, Any] | None = None
    """JSON body of a POST; a text that is only `{depth}` becomes a number."""
    headers: dict[str, str] = Field(default_factory=dict)
    api_key_env: Variable | None = None
    """The environment variable with the key; the file never contains the key itself."""
    key_header: str = "Authorization"
    """The header with the key, unless `params` or `body` contain `{key}`."""
    key_prefix: str = "Bearer "
    ca_file: str | None = None
    """Certificates (PEM) that verify the server's certificate. Not set: the system's certificates."""

    hits: JsonPath | None = None
    """Path of the list of hits. Not set: the answer itself is the list. The paths below start at a hit."""
    id: JsonPath
    """A text or a whole number. Hits of several stores with the same document id are one document."""
    title: JsonPath | None = None
    text: JsonPath | None = None
    """The passage; the snippet is cut from it."""
    score: JsonPath | None = None
    """A number; 0 if it is missing. The order is the endpoint's own."""
    published_at: JsonPath | None = None
    """ISO 8601."""
    source_type: JsonPath | None = None
    metadata: dict[str, JsonPath] = Field(default_factory=dict)
    """Paths of further fields, by the name that filters and answers use (`url`, `language`, …)."""
    total: JsonPath | None = None
    """Path, from the answer, of the number of matches."""
    id_prefix: str | None = None
    """Prefix of every id. Not set: the store's name and a slash, so that ids of two services are not equal by accident.
    Set it to "" if the ids are those of indexed documents."""
    text_is_html: bool = False
    """Remove tags from title and text, and decode entities."""

    namespaces: list[str] | None = None
    """The namespaces that the endpoint serves; others find nothing. Not set: all of them."""
    timeout_s: float = Field(10, ge=0.05, le=60)
    """Longest wait for a whole answer; a request with less time left waits less."""
    max_hits: int = Field(50, ge=1, le=1_000)
    """Maximum number of hits that are read; also the maximum of `{depth}`."""
    max_bytes: int = Field(2_000_000, ge=1_000, le=50_000_000)
    """Maximum size of an answer."""
    text_chars: int = Field(2_000, ge=0, le=100_000)
    """Maximum characters of a hit's text; texts travel through Redis with the ranking."""
    connections: int = Field(4, ge=1, le=64)
    """Questions of one request that a process asks at the same time, and connections that it keeps."""
    allow_write: bool = False
    """Whether a Cypher statement in `params` or `body` (a field named `cypher` or `statement`) may write."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("an address begins with http:// or https:// and a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("an address must not contain a login: name a variable in api_key_env")
        _ = parts.port  # raises ValueError
        if not re.fullmatch(r"[!-~]+", value) or PLACE.search(parts.netloc) or parts.fragment:
            raise ValueError("an address has only visible ASCII, no braces in the host, and no #fragment")
        if "{key}" in value:
            raise ValueError("put {key} into a header, params or body, not into the address")
        return value

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not _HEADER.fullmatch(name) or not re.fullmatch(r"[ -~]*", text):
                raise ValueError(f"{name[:64]!r} is not a header of plain ASCII")
            if name.lower() in ("authorization", "cookie", "host", "content-length", "transfer-encoding"):
                raise ValueError(
                    f"{name!r} cannot be declared here; put a secret into the variable of api_key_env"
                )
        return value

    @field_validator("key_header")
    @classmethod
    def _is_a_header(cls, value: str) -> str:
        if not _HEADER.fullmatch(value):
            raise ValueError("a header has only letters, digits and hyphens")
        return value

    @model_validator(mode="after")
    def _asks_the_question(self) -> HttpEndpoint:
        if self.body is not None and self.method == "GET":
            raise ValueError('a body needs method = "POST"')
        if "question" not in self.places:
            raise ValueError("url, params or body must contain {question}")
        if "key" in self.places and self.api_key_env is None:
            raise ValueError("{key} needs api_key_env, the name of a variable")
        return self

    @model_validator(mode="after")
    def _sends_its_own_cypher(self) -> HttpEndpoint:
        for statement in cypher.statements([self.params, self.body]):
            if PLACE.search(statement):
                raise ValueError(
                    "a Cypher statement has no {question} in its text: bind it as a parameter beside it"
                )
            complaint = None if self.allow_write else cypher.write_complaint(statement, cypher.READ_ONLY)
            if complaint is not None:
                raise ValueError(complaint)
        return self

    @property
    def places(self) -> set[str]:
        """The placeholders in use."""
        return set(PLACE.findall(f"{self.url} {self.params} {self.body}"))

    @property
    def address(self) -> str:
        """The address without parameters, to show to people."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"
