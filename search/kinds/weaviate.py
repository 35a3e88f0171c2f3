"""The `weaviate` kind of store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from models.endpoints import WeaviateEndpoint
from models.extensions import StoreKind
from search.credentials import usable_key

if TYPE_CHECKING:
    from search.weaviate.store import WeaviateStore


def open_weaviate(name: str, options: Mapping[str, Any]) -> WeaviateStore:
    """Raises NotConfigured where the environment has no usable key under the name that is declared."""
    # Its client takes .8 s to import, which installations without a Weaviate do without.
    from search.weaviate.store import WeaviateStore

    endpoint = WeaviateEndpoint(**options)
    variable = endpoint.api_key_env
    key = usable_key(f"the store {name!r}", variable, os.environ.get(variable or ""))
    return WeaviateStore(endpoint, key=key)


KIND = StoreKind(open_weaviate, options=WeaviateEndpoint, writes=True)
