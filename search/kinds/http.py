"""The `http` kind of store: any JSON search endpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from models.endpoints import HttpEndpoint
from models.extensions import StoreKind

if TYPE_CHECKING:
    from search.http.source import HttpSource


def open_http_source(name: str, options: Mapping[str, Any]) -> HttpSource:
    from search.http.source import HttpSource

    endpoint = HttpEndpoint(**options)
    key = os.environ.get(endpoint.api_key_env) if endpoint.api_key_env else None
    return HttpSource(name, endpoint, key=key)


KIND = StoreKind(open_http_source, options=HttpEndpoint)
