"""Each engine's part of a pipeline file with texts in Elasticsearch and vectors in Weaviate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.servers.elasticsearch_server import address, corner
from tests.support.servers.weaviate_server import own_collection

Options = dict[str, Any]


def texts_and_vectors(texts: Options, vectors: Options, *, queue: str | None = None) -> str:
    """Returns the stores `texts` and `vectors` and the branches `bm25` and `vector`, on their own queues or on `queue`."""
    lexical = store_and_branch("texts", "elasticsearch", texts, "bm25", "lexical", queue=queue)
    return lexical + store_and_branch("vectors", "weaviate", vectors, "vector", "dense", queue=queue)


def store_and_branch(
    store: str, kind: str, options: Options, branch: str, group: str, *, queue: str | None = None
) -> str:
    values = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
    return f"""
[stores.{store}]
kind = "{kind}"
options = {{ {values} }}
[branches.{branch}]
kind = "{branch}"
group = "{group}"
store = "{store}"
{f'queue = "{queue}"' if queue else ""}
"""


@contextmanager
def shared_engines(**vector_options: Any) -> Iterator[tuple[Options, Options]]:
    """Yields the options of both stores on the shared test servers; deletes their indices afterwards."""
    with corner() as prefix, own_collection() as endpoint:
        address_of_vectors = {"url": endpoint.url, "grpc_port": endpoint.grpc_port}
        yield (
            {"url": address(), "prefix": prefix},
            {**address_of_vectors, "collection": endpoint.collection, **vector_options},
        )
