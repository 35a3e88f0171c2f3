"""How a store of kind `elasticsearch` is opened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from config.pipeline import StoreDeclaration
from models.elasticsearch_endpoint import ElasticsearchEndpoint
from models.errors import NotConfigured

if TYPE_CHECKING:
    from search.elasticsearch.store import ElasticsearchStore


def open_elasticsearch(declared: StoreDeclaration) -> ElasticsearchStore:
    """Raises NotConfigured where a key or password is not in the environment, or a certificate cannot be read."""
    # Its client takes .3 s to import, which installations without an Elasticsearch do without.
    from search.elasticsearch.store import ElasticsearchStore

    endpoint = ElasticsearchEndpoint(**declared.options)

    def secret(variable: str | None) -> str | None:
        if variable is None:
            return None
        if not (found := os.environ.get(variable)):
            raise NotConfigured(
                f"the store {declared.name!r}: the environment variable {variable}, which has its key or password, "
                "is not set"
            )
        return found

    for option in ("ca_file", "client_cert_file", "client_key_file"):
        if (file := getattr(endpoint, option)) is not None and not os.access(file, os.R_OK):
            raise NotConfigured(f"the store {declared.name!r}: {option} {file} cannot be read")
    return ElasticsearchStore(
        endpoint, api_key=secret(endpoint.api_key_env), password=secret(endpoint.password_env)
    )
