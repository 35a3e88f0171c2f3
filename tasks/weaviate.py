"""How a store of kind `weaviate` is opened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from config.pipeline import StoreDeclaration
from models.errors import NotConfigured
from models.weaviate_endpoint import WeaviateEndpoint

if TYPE_CHECKING:
    from search.weaviate.store import WeaviateStore


def open_weaviate(declared: StoreDeclaration) -> WeaviateStore:
    """Raises NotConfigured where the environment has not the key that is declared."""
    # Its client takes .8 s to import, which installations without a Weaviate do without.
    from search.weaviate.store import WeaviateStore

    endpoint = WeaviateEndpoint(**declared.options)
    key = os.environ.get(endpoint.api_key_env) if endpoint.api_key_env else None
    if endpoint.api_key_env and not key:
        raise NotConfigured(
            f"the store {declared.name!r}: the environment variable {endpoint.api_key_env}, which has its API key, "
            "is not set"
        )
    return WeaviateStore(endpoint, key=key)
