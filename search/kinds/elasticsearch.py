"""The `elasticsearch` kind of store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from models.endpoints import ElasticsearchEndpoint
from models.errors import NotConfigured
from models.extensions import StoreKind
from search.credentials import usable_key

if TYPE_CHECKING:
    from search.elasticsearch.store import ElasticsearchStore


def open_elasticsearch(name: str, options: Mapping[str, Any]) -> ElasticsearchStore:
    """Raises NotConfigured where the environment has no usable key or password, or a certificate cannot be read."""
    # Its client takes .3 s to import, which installations without an Elasticsearch do without.
    from search.elasticsearch.store import ElasticsearchStore

    endpoint = ElasticsearchEndpoint(**options)
    owner = f"the store {name!r}"

    def secret(variable: str | None) -> str | None:
        return usable_key(owner, variable, os.environ.get(variable or ""))

    for option in ("ca_file", "client_cert_file", "client_key_file"):
        if (file := getattr(endpoint, option)) is not None and not os.access(file, os.R_OK):
            raise NotConfigured(f"{owner}: {option} {file} cannot be read")
    return ElasticsearchStore(
        endpoint, api_key=secret(endpoint.api_key_env), password=secret(endpoint.password_env)
    )


KIND = StoreKind(open_elasticsearch, options=ElasticsearchEndpoint, writes=True)
