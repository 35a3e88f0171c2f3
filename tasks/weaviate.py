"""How a store of kind `weaviate` is opened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from config.pipeline import StoreDeclaration
from models.weaviate_endpoint import WeaviateEndpoint
from search.credentials import usable_key

if TYPE_CHECKING:
    from search.weaviate.store import WeaviateStore


def open_weaviate(declared: StoreDeclaration) -> WeaviateStore:
    """Raises NotConfigured where the environment has no usable key under the name that is declared."""
    # Its client takes .8 s to import, which installations without a Weaviate do without.
    from search.weaviate.store import WeaviateStore

    endpoint = WeaviateEndpoint(**declared.options)
    variable = endpoint.api_key_env
    key = usable_key(f"the store {declared.name!r}", variable, os.environ.get(variable or ""))
    return WeaviateStore(endpoint, key=key)
