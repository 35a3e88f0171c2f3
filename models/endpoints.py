"""The declarations of stores that other servers hold: their addresses, and how they are built and asked."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from models import cypher, write_words
from models.extensions import Declared, Variable
from models.http_placeholders import PLACE, placeholders, wrong_placeholder


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port is None:
        raise ValueError("an address has a scheme, a host and a port: https://host:9200")
    if "@" in parts.netloc:
        raise ValueError(
            "an address must not contain a login: name a variable in api_key_env or password_env"
        )
    return value


Address: TypeAlias = Annotated[str, AfterValidator(_address)]


class ElasticsearchEndpoint(Declared):
    """The options of a store of kind `elasticsearch`."""

    model_config = ConfigDict(hide_input_in_errors=True)

    url: Address | Annotated[list[Address], Field(min_length=1)] = "http://127.0.0.1:9200"
    """One address, or several of one cluster."""
    api_key_env: Variable | None = None
    """The environment variable with the key, encoded as Kibana shows it; the file never contains the key itself."""
    username: str | None = None
    password_env: Variable | None = None
    """The environment variable with the password."""
    ca_file: str | None = None
    """Certificates (PEM) that verify the server's certificate.  Not set: the system's certificates."""
    client_cert_file: str | None = None
    """Client certificate (PEM) for a server that asks for one."""
    client_key_file: str | None = None
    prefix: str = Field("chorale", pattern=r"^[a-z][a-z0-9]{0,31}$")
    """Prefix of all index names; installations that share a cluster need different ones."""
    analyser: str | dict[str, Any] = Field("chorale", min_length=1)
    """`chorale`: our own analyser for the namespace's language, with the terms and scores of the embedded store.
    Otherwise the name of an analyser of the server (`english`, `cjk`), or a definition as in an index's
    `settings.analysis` with an analyser named `chorale`."""
    vectors: bool = False
    """Whether the store also searches vectors."""
    ef_construction: int = Field(200, ge=10, le=3_200)
    """HNSW: candidates when a vector is inserted; applies to new namespaces."""
    m: int = Field(16, ge=2, le=512)
    """HNSW: links of a vector; applies to new namespaces."""
    candidates: int = Field(200, ge=1, le=10_000)
    """HNSW: candidates of a search, at least twice the number of hits."""
    shards: int = Field(1, ge=1, le=1_024)
    """Shards of each new namespace.  With several, a search first collects word statistics from all of them."""
    replicas: int | None = Field(None, ge=0, le=64)
    """None: one replica if there are at least two nodes, else none."""
    connections: int = Field(16, ge=1, le=1_024)
    """Connections to each node that are kept open: as many as threads that search at once."""
    timeout_s: float = Field(10.0, gt=0, le=300)
    """Time limit for operations outside of requests: lookups, lists, warming."""
    write_timeout_s: float = Field(60.0, gt=0, le=3_600)
    """Time limit for each message with passages, and for creating and dropping a namespace."""

    @field_validator("analyser")
    @classmethod
    def _has_the_name(cls, value: str | dict[str, Any]) -> str | dict[str, Any]:
        if isinstance(value, dict):
            analysers = value.get("analyzer")
            own = analysers.get("chorale") if isinstance(analysers, dict) else None
            if not (isinstance(own, dict) and own):
                raise ValueError(
                    "a definition needs an analyser named chorale: { analyzer = { chorale = { ... } } }"
                )
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> ElasticsearchEndpoint:
        if (self.username is None) != (self.password_env is None):
            raise ValueError("basic authentication needs both username and password_env")
        if self.username is not None and self.api_key_env is not None:
            raise ValueError("set either api_key_env, or username with password_env, not both")
        if self.client_key_file is not None and self.client_cert_file is None:
            raise ValueError("client_key_file needs a client_cert_file")
        files = (self.ca_file, self.client_cert_file)
        if any(file is not None for file in files) and not self.is_secure:
            raise ValueError("ca_file and client_cert_file need addresses that begin with https://")
        return self

    @property
    def addresses(self) -> list[str]:
        return [self.url] if isinstance(self.url, str) else self.url

    @property
    def is_secure(self) -> bool:
        return all(address.startswith("https://") for address in self.addresses)


class OpenSearchEndpoint(ElasticsearchEndpoint):
    """The options of a store of kind `opensearch`: those of `elasticsearch`, without `api_key_env`."""

    api_key_env: None = None
    """OpenSearch takes a username and a password."""
    aws_region: str | None = Field(None, pattern=r"^[a-z]+(-[a-z]+)+-\d$")
    """The region of a domain of Amazon OpenSearch Service, such as `eu-west-1`.  Every request is then signed (AWS Signature Version 4)
    with the credentials that botocore finds: environment, profile, or role."""

    @model_validator(mode="after")
    def _has_one_login(self) -> OpenSearchEndpoint:
        if self.aws_region is not None and self.username is not None:
            raise ValueError("set either aws_region, or username with password_env, not both")
        return self


class PostgresqlEndpoint(Declared):
    """The options of a store of kind `postgresql`."""

    url_env: Variable = "CHORALE_DATABASE_URL"
    """The environment variable with the address, `postgresql://USER:PASSWORD@HOST/DATABASE`; the file never contains the address
    itself."""
    vectors: bool = True
    """Whether the store also searches vectors.  Without them the server needs no pgvector."""
    exact_below: int = Field(20_000, ge=0, le=10_000_000)
    """With fewer passages in a namespace, every vector is compared (exact search).  A namespace that reaches this number gets a graph
    (HNSW)."""
    candidates: int = Field(400, ge=1, le=1_000)
    """HNSW: candidates of a search, at least the number of hits."""
    connections: int = Field(16, ge=1, le=1_024)
    """Connections that a process keeps open at most: as many as threads that search at once."""
    timeout_s: float = Field(10.0, gt=0, le=300)
    """Time limit for operations outside of requests: lookups, warming."""
    write_timeout_s: float = Field(60.0, gt=0, le=3_600)
    """Time limit for each batch of passages, and for creating and dropping a namespace."""


class WeaviateEndpoint(Declared):
    """The options of a store of kind `weaviate`."""

    url: str = Field("http://127.0.0.1:8080", pattern=r"^https?://[^/@\s]+/?$")
    """Address of the REST interface; with `https`, gRPC uses TLS too. SSL_CERT_FILE may name the certificates."""
    grpc_host: str | None = None
    """Host of the gRPC interface; None: the host of `url`."""
    grpc_port: int = Field(50051, ge=1, le=65_535)
    api_key_env: Variable | None = None
    """The environment variable with the key; the file never contains the key itself."""
    collection: str = Field("Chorale", pattern=r"^[A-Z][A-Za-z0-9]{0,63}$")
    """The beginning of the name of the collection."""
    timeout_s: float = Field(10.0, gt=0, le=300)
    """Time limit for operations outside of requests: lookups, lists, creating and dropping namespaces."""
    write_timeout_s: float = Field(60.0, gt=0, le=3_600)
    """Time limit for each message with passages, which waits until they are indexed."""
    texts: bool = True
    """Without effect: titles, texts and metadata are in the documents' database."""
    ef: int = Field(-1, ge=-1, le=10_000)
    """HNSW: candidates of a search; -1: `dynamic_ef_factor` times the hits, within the two bounds."""
    dynamic_ef_min: int = Field(100, ge=1, le=10_000)
    dynamic_ef_max: int = Field(500, ge=1, le=10_000)
    dynamic_ef_factor: int = Field(8, ge=1, le=1_000)
    ef_construction: int = Field(128, ge=4, le=2_000)
    """HNSW: candidates when a vector is inserted; fixed once the collection exists."""
    max_connections: int = Field(32, ge=4, le=2_047)
    """HNSW: edges of a vector; fixed once the collection exists."""
    quantiser: Literal["none", "rq", "bq"] = "none"
    """HNSW: how the graph keeps vectors in memory: `none` as 32-bit numbers, `rq` in 8 bits, `bq` in 1 bit a number.  Hits
    are rescored with the whole vectors.  Fixed once the collection exists."""
    shards: Literal[1] = 1
    """Weaviate keeps each namespace in one shard, and spreads namespaces over its nodes.  Divide the documents into several
    namespaces, or search vectors in Elasticsearch, which has shards."""
    replicas: int = Field(0, ge=0, le=64)
    """Copies of each namespace on further nodes (Weaviate's replication factor, less one); fixed once the collection exists."""
    flat_search_cutoff: int = Field(40_000, ge=0, le=10_000_000)
    """With fewer passages in the namespace or filter, every vector is compared (exact search)."""

    @model_validator(mode="after")
    def _has_two_ports(self) -> WeaviateEndpoint:
        if self.grpc_address == (self.host, self.port):
            raise ValueError(
                f"grpc_port {self.grpc_port} is the port of the url: declare gRPC's own port, or its grpc_host"
            )
        return self

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (443 if self.is_secure else 80)

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https:")

    @property
    def grpc_address(self) -> tuple[str, int]:
        return self.grpc_host or self.host, self.grpc_port


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
"""A path of names and list positions, such as `items.0.title`; a list of them if a name contains a dot."""


class MongodbTexts(Declared):
    """The table `texts` of a store of kind `http`: the texts of its hits are in a collection of MongoDB."""

    kind: Literal["mongodb"]
    url_env: Variable
    """The environment variable with the address, `mongodb://USER:PASSWORD@HOST` or `mongodb+srv://…`; the file never contains the
    address itself."""
    database: str = Field(min_length=1)
    collection: str = Field(min_length=1)
    id: str = Field("_id", min_length=1)
    """The field with the ids of the hits; an id of 24 hexadecimal digits also stands for an ObjectId."""
    title: str | None = Field(None, min_length=1)
    """Not set: the title that the hit has."""
    text: str = Field(min_length=1)
    timeout_s: float = Field(1, ge=0.05, le=60)
    """Longest wait for the texts of all questions; a request with less time left waits less."""


FilterDialect: TypeAlias = Literal["chorale", "elasticsearch", "pinecone", "qdrant"]
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
    def _asks_the_question(self) -> HttpEndpoint:
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
