"""The declarations of sources as they are: a graph in Neo4j, a JSON search endpoint, and the texts of its hits in MongoDB."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from models.declarations import cypher, write_words
from models.declarations.extensions import Declared, Variable
from models.declarations.http_placeholders import PLACE, placeholders, wrong_placeholder


class Neo4jEndpoint(Declared):
    """The options of a store of kind `neo4j`."""

    url: str = Field(pattern=r"^(bolt|neo4j)(\+s|\+ssc)?://[^/@\s?#]+/?$")
    """`bolt://HOST:7687`, or `neo4j://` for a cluster; with `+s` over TLS, and with `+ssc` without a check of the certificate."""
    user: str = Field("neo4j", min_length=1)
    password_env: Variable | None = None
    """The environment variable with the password; the file never contains the password itself.  Not set: no login."""
    database: str | None = Field(None, min_length=1)
    """Not set: the user's home database."""
    namespaces: list[str] | None = None
    """The namespaces that the database serves; others find nothing.  Not set: every statement must name `$namespace`."""
    allow_write: bool = False
    """Whether a statement may write."""
    timeout_s: float = Field(10, ge=0.05, le=60)
    """Longest wait for an answer; a request with less time left waits less."""
    connections: int = Field(16, ge=1, le=256)
    """Connections that a process keeps."""
    id_prefix: str | None = None
    """Prefix of every id.  Not set: the store's name and a slash.  Set it to "" if the ids are those of indexed documents."""
    text_chars: int = Field(2_000, ge=0, le=100_000)
    """Maximum characters of a hit's text; texts travel through Redis with the ranking."""


JsonPath: TypeAlias = Annotated[str, Field(min_length=1)] | Annotated[list[str | int], Field(min_length=1)]
"""A path of names and list positions, such as `items.0.title`; a list of them if a name contains a dot.  A name inside a list stands for
the values of all its objects."""


class MongodbTexts(Declared):
    """The table `texts` of a store of kind `http`: the texts of its hits are in a collection of MongoDB."""

    kind: Literal["mongodb"]
    url_env: Variable
    """The environment variable with the address, `mongodb://USER:PASSWORD@HOST` or `mongodb+srv://…`; the file never contains the
    address itself."""
    database: str = Field(min_length=1)
    collection: str = Field(min_length=1)
    id: str = Field("_id", min_length=1)
    """The field with the ids of the hits; an id of 24 hexadecimal digits also stands for an ObjectId, and a numeral for a number.  If
    the collection has both `"7"` and `7`, each keeps its own text."""
    title: str | None = Field(None, min_length=1)
    """Not set: the title that the hit has."""
    text: str = Field(min_length=1)
    timeout_s: float = Field(1, ge=0.05, le=60)
    """Longest wait for the texts of all questions; a request with less time left waits less."""


FilterDialect: TypeAlias = Literal["chorale", "elasticsearch", "pinecone", "qdrant"]
QdrantIndex: TypeAlias = Literal["keyword", "integer", "float", "bool", "datetime"]
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")


class HttpEndpoint(Declared):
    """The options of a store of kind `http`."""

    model_config = ConfigDict(hide_input_in_errors=True)

    url: str
    """Address, `http://` or `https://`, without a password; redirects are not followed."""
    method: Literal["GET", "POST"] = "GET"
    params: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Parameters that are added to those of the address."""
    body: dict[str, Any] | None = None
    """JSON body of a POST; a text that is only `{depth}` becomes a number, one that is only `{vector}` the list of the numbers of
    the question's vector, and one that is only `{filter}` the filters of the request, an object."""
    filter_dialect: FilterDialect = "chorale"
    """The query language of `{filter}`; `chorale`: as callers write them.  What it cannot express is compared here."""
    filter_fields: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    """The endpoint's own names of fields in `{filter}`, by the name that filters use."""
    filter_indexes: dict[str, QdrantIndex] = Field(default_factory=dict)
    """The payload index that Qdrant has of a field, by the name that filters use.  A condition that the index does not answer is not
    sent, because a collection in strict mode, as in Qdrant Cloud, refuses it."""
    headers: dict[str, str] = Field(default_factory=dict)
    api_key_env: Variable | None = None
    """The environment variable with the key; the file never contains the key itself."""
    key_header: str = "Authorization"
    """The header with the key, unless `params` or `body` contain `{key}`."""
    key_prefix: str = Field("Bearer ", pattern=r"^[ -~]*$")
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
    error: JsonPath | None = None
    """Path, from an answer with a status of 400 to 499, of the sentence that says why.  It is not shown for a refused key, nor to
    callers whose key forces filters."""
    texts: MongodbTexts | None = None
    """Where the texts are if the hits have none: they are read by id, and a hit without a text there is left out."""
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
    """Maximum size of an answer, and of the texts that `texts` adds to it."""
    text_chars: int = Field(2_000, ge=0, le=100_000)
    """Maximum characters of a hit's text; texts travel through Redis with the ranking."""
    cache_ttl_s: float | None = Field(None, gt=0, le=604_800)
    """How long an answer that has hits of this store may come from the cache.  Without this field no such answer is cached."""
    connections: int = Field(4, ge=1, le=64)
    """Questions of one request that a process asks at the same time, and connections that it keeps."""
    allow_write: bool = False
    """Whether `url`, `params` and `body` may have a keyword of Cypher or SQL that writes, such as SET."""

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
    def _is_consistent(self) -> HttpEndpoint:
        if self.body is not None and self.method == "GET":
            raise ValueError('a body needs method = "POST"')
        if complaint := wrong_placeholder(dict(self)):
            raise ValueError(complaint)
        if len(self.places & {"question", "vector"}) != 1:
            raise ValueError(
                "url, params or body must contain {question}, or params or body {vector}, and not both"
            )
        if self.text is not None and self.texts is not None:
            raise ValueError("declare either text, a field of the hits, or texts")
        if "filter" not in self.places and {"filter_dialect", "filter_fields"} & self.model_fields_set:
            raise ValueError("filter_dialect and filter_fields need {filter} in the body")
        if self.filter_indexes and self.filter_dialect != "qdrant":
            raise ValueError('filter_indexes need filter_dialect = "qdrant"')
        if "key" in self.places and self.api_key_env is None:
            raise ValueError("{key} needs api_key_env, the name of a variable")
        return self

    @model_validator(mode="after")
    def _sends_its_own_statements(self) -> HttpEndpoint:
        for statement in cypher.statements([self.params, self.body]):
            if PLACE.search(statement):
                raise ValueError(
                    "a Cypher statement has no {question} in its text: bind it as a parameter beside it"
                )
        word = write_words.writing_word({"url": self.url, "params": self.params, "body": self.body})
        if not self.allow_write and (complaint := cypher.write_complaint(word, cypher.READ_ONLY)):
            raise ValueError(complaint)
        return self

    @property
    def places(self) -> set[str]:
        """The placeholders in use."""
        return placeholders(dict(self))

    @property
    def takes_vectors(self) -> bool:
        """Whether it gets the vector of a question in place of its text."""
        return "vector" in self.places

    @property
    def takes_filters(self) -> bool:
        """Whether it gets the filters of a request."""
        return "filter" in self.places

    @property
    def address(self) -> str:
        """The address without parameters, to show to people."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"
