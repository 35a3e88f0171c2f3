"""How a store of kind `http` is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from models.http_endpoint import HttpEndpoint
from search.http.source import HttpSource


def open_http_source(name: str, options: Mapping[str, Any]) -> HttpSource:
    endpoint = HttpEndpoint(**options)
    key = os.environ.get(endpoint.api_key_env) if endpoint.api_key_env else None
    return HttpSource(name, endpoint, key=key)
