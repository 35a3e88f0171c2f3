"""The kinds of stores that Chorale ships.

A store's own folder is imported when it is opened: its client may take .8 s to import."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, Field

from models.declarations import cypher
from models.declarations.engines import (
    ElasticsearchEndpoint,
    OpenSearchEndpoint,
    PostgresqlEndpoint,
    WeaviateEndpoint,
)
from models.declarations.extensions import Declared, Need, StoreKind, StoreSearch
from models.declarations.http_placeholders import placeholders
from models.declarations.sources import HttpEndpoint, MongodbTexts, Neo4jEndpoint
from models.errors import NotConfigured
from models.hits import Ranking
from search.credentials import usable_key
from search.protocol import Search

if TYPE_CHECKING:
    from search.engines.elasticsearch.store import ElasticsearchStore
    from search.engines.embedded.store import EmbeddedStore
    from search.engines.graph.derived_graph import DerivedGraph, Documents
    from search.engines.http.mongodb_texts import MongodbCollection
    from search.engines.http.source import HttpSource
    from search.engines.neo4j.store import Neo4jStore
    from search.engines.opensearch.store import OpenSearchStore
    from search.engines.postgresql.store import PostgresqlStore
    from search.engines.weaviate.store import WeaviateStore

_T = TypeVar("_T")


@contextmanager
def _needing(store: str, *packages: str, make: str) -> Iterator[None]:
    """Raises NotConfigured if an optional package is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotConfigured(
            f"the store {store!r} needs {' and '.join(packages)} ({error}); `make {make}` or "
            f"`pip install {' '.join(packages)}` installs what is missing"
        ) from error


def open_elasticsearch(name: str, options: Mapping[str, Any]) -> ElasticsearchStore:
    """Raises NotConfigured where its client is missing, the environment has no usable key or password, or a certificate cannot be
    read."""
    with _needing(name, "elasticsearch~=8.19", make="elasticsearch"):
        from search.engines.elasticsearch.store import ElasticsearchStore
    endpoint = ElasticsearchEndpoint(**options)
    _check_certificates(name, endpoint)
    return ElasticsearchStore(
        endpoint, api_key=_secret(name, endpoint.api_key_env), password=_secret(name, endpoint.password_env)
    )


def open_opensearch(name: str, options: Mapping[str, Any]) -> OpenSearchStore:
    """Raises NotConfigured where a package is missing, the environment has no usable password or AWS credentials, or a certificate
    cannot be read."""
    endpoint = OpenSearchEndpoint(**options)
    _check_certificates(name, endpoint)
    password = _secret(name, endpoint.password_env)
    with _needing(name, "opensearch-py", "botocore", make="opensearch"):
        from search.engines.opensearch.store import OpenSearchStore
    return OpenSearchStore(endpoint, password=password)


def _check_certificates(name: str, endpoint: ElasticsearchEndpoint) -> None:
    for option in ("ca_file", "client_cert_file", "client_key_file"):
        if (file := getattr(endpoint, option)) is not None and not os.access(file, os.R_OK):
            raise NotConfigured(f"the store {name!r}: {option} {file} cannot be read")


class EmbeddedOptions(Declared):
    folder: str = Field("corpus", min_length=1, pattern=r"^[^\\0]+$")
    """The folder of its documents: an absolute path, or a path inside the installation's folder."""


def open_embedded(
    name: str, options: Mapping[str, Any], *, home: Path, needs: Collection[Need]
) -> EmbeddedStore:
    # tantivy and numpy take .2 s to import.
    from search.engines.embedded.store import EmbeddedStore

    return EmbeddedStore(
        home / EmbeddedOptions(**options).folder, warm_text="text" in needs, warm_vectors="vectors" in needs
    )


class GraphOptions(Declared):
    documents: str = Field(min_length=1)
    """The store whose documents are the nodes."""
    links: dict[
        Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")], Annotated[str, Field(min_length=1)]
    ] = Field(min_length=1)
    """The metadata field with the targets, a text or a list of texts, by the name of the relation."""


def open_graph(
    name: str, options: Mapping[str, Any], *, documents: Documents, needs: Collection[Need]
) -> DerivedGraph:
    with _needing(name, "kglite", make="graph"):
        from search.engines.graph.derived_graph import DerivedGraph
    return DerivedGraph(name, documents, GraphOptions(**options).links, is_warmed="graph" in needs)


def check_derived_cypher(options: Mapping[str, Any], statement: str) -> str | None:
    return cypher.write_complaint(cypher.writing_word(statement), "a graph of documents is only read")


def open_http_source(name: str, options: Mapping[str, Any]) -> HttpSource:
    """Raises NotConfigured if the environment has no usable key.  For a source whose texts are in MongoDB it also raises NotConfigured if
    MongoDB's driver or a usable address is missing."""
    from search.engines.http.source import HttpSource

    endpoint = HttpEndpoint(**options)
    collection = None if endpoint.texts is None else _open_texts(name, endpoint.texts)
    return HttpSource(name, endpoint, key=_secret(name, endpoint.api_key_env), collection=collection)


def _open_texts(name: str, declared: MongodbTexts) -> MongodbCollection:
    with _needing(name, "pymongo", make="mongodb"):
        from search.engines.http.mongodb_texts import MongodbCollection
    form = "mongodb://USER:PASSWORD@HOST"
    return _at_address(name, declared.url_env, form, lambda url: MongodbCollection(declared, url))


def http_needs(options: Mapping[str, Any]) -> frozenset[Need]:
    return frozenset({"questions"} if "vector" in placeholders(options) else ())


_COLUMNS = ("id", "title", "text", "published_at", "source_type")


def open_neo4j(name: str, options: Mapping[str, Any]) -> Neo4jStore:
    """Raises NotConfigured where the driver is missing, or the environment has no password."""
    with _needing(name, "neo4j", make="neo4j"):
        from search.engines.neo4j.store import Neo4jStore
    from search.engines.http.answer import AnswerReader

    endpoint = Neo4jEndpoint(**options)

    def read_rows(
        rows: list[Mapping[str, Any]], columns: Sequence[str], search: Search, score: str | None
    ) -> Ranking:
        """A row is read as a hit of an HTTP endpoint that has the columns as its fields."""
        fields: dict[str, Any] = {column: [column] for column in columns}
        known = {column: fields.pop(column) for column in _COLUMNS if column in fields}
        hits = HttpEndpoint.model_construct(
            url=endpoint.url,
            **known,
            metadata=fields,
            score=[score] if score else None,
            id_prefix=endpoint.id_prefix,
            text_chars=endpoint.text_chars,
            max_hits=max(1, len(rows)),
        )
        return AnswerReader(name, hits).read_hits(rows, search).ranking()

    return Neo4jStore(endpoint, read_rows, password=_secret(name, endpoint.password_env))


def check_cypher(options: Mapping[str, Any], statement: str) -> str | None:
    if options.get("allow_write") is not True and (
        complaint := cypher.write_complaint(cypher.writing_word(statement), cypher.READ_ONLY)
    ):
        return complaint
    if options.get("namespaces") is None and "namespace" not in cypher.parameters(statement):
        return "the statement must name $namespace, or the store must say which `namespaces` its whole graph serves"
    return None


def open_postgresql(name: str, options: Mapping[str, Any]) -> PostgresqlStore:
    """Raises NotConfigured where the driver is missing, or the environment has no usable address."""
    with _needing(name, "psycopg[binary]", make="postgresql"):
        from search.engines.postgresql.store import PostgresqlStore
    endpoint = PostgresqlEndpoint(**options)
    form = "postgresql://USER:PASSWORD@HOST/DATABASE"
    return _at_address(name, endpoint.url_env, form, lambda url: PostgresqlStore(url, endpoint))


def open_weaviate(name: str, options: Mapping[str, Any]) -> WeaviateStore:
    """Raises NotConfigured where its client is missing, or the environment has no usable key under the name that is declared."""
    with _needing(name, "weaviate-client", make="weaviate"):
        from search.engines.weaviate.store import WeaviateStore
    endpoint = WeaviateEndpoint(**options)
    return WeaviateStore(endpoint, key=_secret(name, endpoint.api_key_env))


def _secret(name: str, variable: str | None) -> str | None:
    return usable_key(f"the store {name!r}", variable, os.environ.get(variable or ""))


def _at_address(name: str, variable: str, form: str, open_at: Callable[[str], _T]) -> _T:
    """What is opened with the address in the variable.  Raises NotConfigured, which shows the form in place of the address."""
    url = os.environ.get(variable, "").strip()
    if not url:
        raise NotConfigured(
            f"the store {name!r} needs an address: the variable {variable} is not set; it is {form}"
        )
    try:
        # A second @ is one of a password that is not encoded, and the rest of that password would be shown.
        if not (url.startswith(form.partition(":")[0]) and url.isprintable() and url.count("@") < 2):
            raise ValueError
        return open_at(url)
    except Exception:  # it may quote the address, which may contain a password
        raise NotConfigured(
            f"the store {name!r}: the variable {variable} has no valid address; it is {form}, with percent-encoded characters in "
            "USER and PASSWORD"
        ) from None


def _serves(
    options_model: type[BaseModel], *more: StoreSearch
) -> Callable[[Mapping[str, Any]], Collection[StoreSearch]]:
    """`more`: the searches beside those that every engine serves; without an option `vectors` it always has vectors."""
    option = options_model.model_fields.get("vectors")

    def serves(options: Mapping[str, Any]) -> Collection[StoreSearch]:
        has_vectors = options.get("vectors", option.default if option else True)
        return ("text", "listing", *more, *(("vectors",) if has_vectors else ()))

    return serves


def _serves_none(options: Mapping[str, Any]) -> Collection[StoreSearch]:
    return ()


KINDS: Mapping[str, StoreKind] = {
    "elasticsearch": StoreKind(
        open_elasticsearch, options=ElasticsearchEndpoint, writes=True, serves=_serves(ElasticsearchEndpoint)
    ),
    "embedded": StoreKind(
        open_embedded, options=EmbeddedOptions, writes=True, in_home=True, serves=_serves(EmbeddedOptions)
    ),
    "graph": StoreKind(
        open_graph,
        options=GraphOptions,
        documents_of="documents",
        check_cypher=check_derived_cypher,
        serves=_serves_none,
    ),
    "http": StoreKind(open_http_source, options=HttpEndpoint, needs=http_needs, serves=_serves_none),
    "neo4j": StoreKind(open_neo4j, options=Neo4jEndpoint, check_cypher=check_cypher, serves=_serves_none),
    "opensearch": StoreKind(
        open_opensearch, options=OpenSearchEndpoint, writes=True, serves=_serves(OpenSearchEndpoint)
    ),
    "postgresql": StoreKind(
        open_postgresql, options=PostgresqlEndpoint, writes=True, serves=_serves(PostgresqlEndpoint)
    ),
    "weaviate": StoreKind(
        open_weaviate, options=WeaviateEndpoint, writes=True, serves=_serves(WeaviateEndpoint, "hybrid")
    ),
}
