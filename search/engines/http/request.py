"""The request that is sent to an endpoint for one question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx2
from pydantic_core import to_json

from models.http_placeholders import PLACE, PLACES
from models.source_endpoints import HttpEndpoint


def make_request(endpoint: HttpEndpoint, values: Mapping[str, Any], *, key: str | None) -> httpx2.Request:
    """`values` has the value of each placeholder but `{key}`; a question may have lone surrogates, which neither JSON nor a URL
    can hold."""
    values = {
        name: value.encode(errors="replace").decode() if isinstance(value, str) else value
        for name, value in values.items()
    }
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "chorale"}
    headers |= {name: value.strip() for name, value in endpoint.headers.items()}
    if key is not None:
        values = {**values, "key": key}
        if "key" not in endpoint.places:
            headers[endpoint.key_header] = endpoint.key_prefix + key
    body = None
    if endpoint.body is not None:
        body = to_json(_filled(endpoint.body, values))
        headers["Content-Type"] = "application/json"
    parts = urlsplit(endpoint.url)
    quoted = {name: quote(str(value), safe="") for name, value in values.items() if "url" in PLACES[name]}
    target = _text(parts.path or "/", quoted)
    query = [_text(parts.query, quoted)] if parts.query else []
    if endpoint.params:
        given = {name: _plain(_filled(value, values)) for name, value in endpoint.params.items()}
        query.append(urlencode(given))
    target = "?".join([target, "&".join(query)] if query else [target])
    # Other ways to make a URL resolve dots, and change escapes.
    url = httpx2.URL(f"{parts.scheme}://{parts.netloc}").copy_with(raw_path=target.encode("ascii"))
    return httpx2.Request(endpoint.method, url, headers=headers, content=body)


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Fills each place once; text from a question is never searched for places."""
    if isinstance(template, dict):
        return {name: _filled(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    alone = PLACE.fullmatch(template)
    return values.get(alone[1], "") if alone else _text(template, values)


def _text(template: str, values: Mapping[str, Any]) -> str:
    """An object or a list is inserted as JSON."""

    def inserted(found: re.Match[str]) -> str:
        value = values.get(found[1], "")
        return to_json(value).decode() if isinstance(value, dict | list) else str(value)

    return PLACE.sub(inserted, template)


def _plain(value: Any) -> Any:
    return to_json(value).decode() if isinstance(value, bool | list) else value
