"""How a store of kind `http` is opened."""

from __future__ import annotations

import os

from config.pipeline import StoreDeclaration
from models.http_endpoint import HttpEndpoint
from search.http.source import HttpSource


def open_http_source(declared: StoreDeclaration) -> HttpSource:
    endpoint = HttpEndpoint(**declared.options)
    key = os.environ.get(endpoint.api_key_env) if endpoint.api_key_env else None
    return HttpSource(declared.name, endpoint, key=key)
