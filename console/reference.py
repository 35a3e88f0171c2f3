"""`/docs`: the routes of the HTTP API with their parameters, from its OpenAPI description.  Needs no key, as the description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI

_REF = "$ref"


def reference_of(api: FastAPI) -> dict[str, Any]:
    """The operations of the API by tag, in the order of their routes."""
    document = api.openapi()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = operation.get("tags", ["other"])[0]
            groups.setdefault(tag, []).append(_operation(document, path, method, operation))
    return {"introduction": document["info"].get("description", ""), "groups": groups}


def _operation(
    document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]
) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    body = next((media["schema"] for media in content.values() if "schema" in media), None)
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "text": operation.get("description") or operation.get("summary", ""),
        "parameters": [
            {
                "name": parameter["name"],
                "place": parameter["in"],
                "is_required": parameter.get("required", False),
                "type": type_of(parameter["schema"]),
                "text": parameter.get("description", ""),
            }
            for parameter in operation.get("parameters", ())
        ],
        "media_types": list(content),
        "fields": list(_fields(document, body)) if body is not None else [],
        "responses": [
            {"status": status, "text": response.get("description", "")}
            for status, response in operation["responses"].items()
        ],
    }


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of a body."""
    if _REF in schema:
        schema = document["components"]["schemas"][schema[_REF].rpartition("/")[2]]
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield {
            "name": name,
            "is_required": name in required,
            "type": type_of(field),
            "text": field.get("description", ""),
        }


def type_of(schema: Mapping[str, Any]) -> str:
    """The type of a value in words, such as `list of string` or `integer from 1 to 200`."""
    if _REF in schema:
        return str(schema[_REF]).rpartition("/")[2]
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            kinds = dict.fromkeys(type_of(part) for part in schema[several])
            return " or ".join(kind for kind in kinds if kind != "null")
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    lowest, highest = (
        schema.get(name, schema.get(exclusive))
        for name, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
    )
    if lowest is not None and highest is not None:
        return f"{kind} from {lowest:g} to {highest:g}"
    return kind if lowest is None else f"{kind} from {lowest:g}"
