"""Corrects what FastAPI has no option for in the API's description."""

from __future__ import annotations

from typing import Any

from api.problems import MEDIA_TYPE, ProblemDocument

_PROBLEM = {"$ref": f"#/components/schemas/{ProblemDocument.__name__}"}


def with_problem_types(document: dict[str, Any]) -> dict[str, Any]:
    """The document, in which every error has the media type of problems."""
    for path in document["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                content = response.get("content", {})
                if content.get("application/json", {}).get("schema") == _PROBLEM:
                    response["content"] = {MEDIA_TYPE: content["application/json"]}
    return document
