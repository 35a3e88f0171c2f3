"""The request that is sent to an endpoint for one question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx2
from pydantic_core import to_json

from models.endpoints import PLACE, HttpEndpoint
from search.filters import RANGES


def make_request(
    endpoint: HttpEndpoint,
    *,
    question: str,
    depth: int,
    namespace: str,
    key: str | None,
    filters: Mapping[str, Any],
) -> httpx2.Request:
    # Neither JSON nor a URL can hold lone surrogates.
    question = question.encode(errors="replace").decode()
    values: dict[str, str | int] = {"question": question, "depth": depth, "namespace": namespace}
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "chorale"}
    headers |= {name: value.strip() for name, value in endpoint.headers.items()}
    if key is not None:
        values["key"] = key
        if "key" not in endpoint.places:
            headers[endpoint.key_header] = endpoint.key_prefix + key
    body = None
    if endpoint.body is not None:
        body = to_json(_filled(endpoint.body, {**values, "filter": _sent(dict(filters))}))
        headers["Content-Type"] = "application/json"
    parts = urlsplit(endpoint.url)
    quoted = {name: quote(str(value), safe="") for name, value in values.items()}
    target = _text(parts.path or "/", quoted)
    query = [_text(parts.query, quoted)] if parts.query else []
    if endpoint.params:
        given = {name: _plain(_filled(value, values)) for name, value in endpoint.params.items()}
        query.append(urlencode(given))
    target = "?".join([target, "&".join(query)] if query else [target])
    # Other ways to make a URL resolve dots, and change escapes.
    url = httpx2.URL(f"{parts.scheme}://{parts.netloc}").copy_with(raw_path=target.encode("ascii"))
    return httpx2.Request(endpoint.method, url, headers=headers, content=body)


def _sent(condition: Any) -> Any:
    """A condition as callers write it: one bound, where stores compare with a number and its numeral."""
    if not isinstance(condition, dict):
        return condition
    return {
        name: part[0]
        if name in RANGES and isinstance(part, list)
        else [_sent(one) for one in part]
        if name == "all"
        else _sent(part)
        for name, part in condition.items()
    }


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
    """An object is inserted as JSON."""

    def inserted(found: re.Match[str]) -> str:
        value = values.get(found[1], "")
        return to_json(value).decode() if isinstance(value, dict) else str(value)

    return PLACE.sub(inserted, template)


def _plain(value: str | float) -> str | float:
    return str(value).lower() if isinstance(value, bool) else value
