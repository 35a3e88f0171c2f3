"""A JSON search endpoint as a pipeline declares it: how it is asked, and where its answer holds what."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

PLACES = ("question", "depth", "namespace", "key")
"""Stand in braces in the address, the parameters and the body; any other brace means itself."""
PLACE = re.compile("{(" + "|".join(PLACES) + ")}")

JsonPath: TypeAlias = Annotated[str, Field(min_length=1)] | Annotated[list[str | int], Field(min_length=1)]
"""Names and places in a list, as `items.0.title`; as a list of them where a name has a dot in it."""

_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")


class HttpEndpoint(BaseModel):
    """The options of a store of kind `http`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    url: str
    """Address, `http://` or `https://`, without a password; redirects are not followed."""
    method: Literal["GET", "POST"] = "GET"
    params: dict[str, str | int | float | bool] = {}
    """Of the address, beside those that stand in it."""
    body: dict[str, Any] | None = None
    """JSON of a POST; a text that is `{depth}` alone becomes a number."""
    headers: dict[str, str] = {}
    api_key_env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The environment variable that has the key: the key itself never stands in a file."""
    key_header: str = "Authorization"
    """The header that carries the key, where no `{key}` stands in `params` or `body`."""
    key_prefix: str = "Bearer "
    ca_file: str | None = None
    """Certificates (PEM) that the server's is checked against. Not set: the system's."""

    hits: JsonPath | None = None
    """The list of hits; not set: the answer is that list. What follows is found in each of them."""
    id: JsonPath
    """A text or a whole number. Hits of several stores are one document when their document ids agree."""
    title: JsonPath | None = None
    text: JsonPath | None = None
    """Shown as the passage, and made the snippet of."""
    score: JsonPath | None = None
    """A number; 0 where it has none. The order is the endpoint's own."""
    published_at: JsonPath | None = None
    """ISO 8601."""
    source_type: JsonPath | None = None
    metadata: dict[str, JsonPath] = {}
    """Further fields, by the name that filters and answers use (`url`, `language`, ...)."""
    total: JsonPath | None = None
    """How many matched in all, in the answer itself."""
    id_prefix: str | None = None
    """Before every id. Not set: the store's name and a slash, so that two services that count from 1 do not agree
    by accident; empty where their ids are those of the indexed documents."""
    text_is_html: bool = False
    """Tags are left out of title and text, entities become characters."""

    namespaces: list[str] | None = None
    """The namespaces that it has something for; others find nothing here. Not set: all of them."""
    timeout_s: float = Field(10, ge=0.05, le=60)
    """Longest wait for a whole answer; a request that has less time left waits less."""
    max_hits: int = Field(50, ge=1, le=1_000)
    """Hits of one answer that are read; also the most that `{depth}` asks for."""
    max_bytes: int = Field(2_000_000, ge=1_000, le=50_000_000)
    """Longest answer that is read."""
    text_chars: int = Field(2_000, ge=0, le=100_000)
    """Characters of a hit's text that are kept: they travel through Redis with the ranking."""
    connections: int = Field(4, ge=1, le=64)
    """Questions of one request that a process asks at the same time; so many connections are kept."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("an address begins with http:// or https:// and a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("no name and password in the address: name a variable in api_key_env")
        _ = parts.port  # raises ValueError
        if not re.fullmatch(r"[!-~]+", value) or PLACE.search(parts.netloc) or parts.fragment:
            raise ValueError("visible ASCII alone, no braces in the host, and nothing after a #")
        if "{key}" in value:
            raise ValueError("a key stands in a header, in params or in body, never in the address")
        return value

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not _HEADER.fullmatch(name) or not re.fullmatch(r"[ -~]*", text):
                raise ValueError(f"{name[:64]!r} is no header of plain ASCII")
            if name.lower() in ("authorization", "cookie", "host", "content-length", "transfer-encoding"):
                raise ValueError(f"{name!r} is not to be declared here; a secret stands in api_key_env")
        return value

    @field_validator("key_header")
    @classmethod
    def _is_a_header(cls, value: str) -> str:
        if not _HEADER.fullmatch(value):
            raise ValueError("letters, digits and hyphens")
        return value

    @model_validator(mode="after")
    def _asks_the_question(self) -> HttpEndpoint:
        if self.body is not None and self.method == "GET":
            raise ValueError('a body needs method = "POST"')
        if "question" not in self.places:
            raise ValueError("{question} stands nowhere in url, params or body")
        if "key" in self.places and self.api_key_env is None:
            raise ValueError("{key} needs api_key_env, the variable that has it")
        return self

    @property
    def places(self) -> set[str]:
        """Those that are filled in somewhere."""
        return set(PLACE.findall(f"{self.url} {self.params} {self.body}"))

    @property
    def address(self) -> str:
        """For people: without parameters."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"
