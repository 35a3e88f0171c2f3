"""The search of the page as a command and as code, to be copied."""

from __future__ import annotations

import json
import shlex
from typing import Any

from chorale_client.request import Request
from chorale_client.wire_names import QUEUE_RETRIEVE, TASK_RETRIEVE

_PAGE_OPTIONS = {"request_id", "v", "cache", "include", "questions"}
_TOOL_OPTIONS = ("namespace", "top_k", "filters")
"""What `chorale_search` of `chorale mcp` takes."""


def calls_of(request: Request, origin: str) -> dict[str, str]:
    """By the way to ask; `origin` is the address of this API.  The code needs the variables `KEY` and `CHORALE_REDIS_URL`."""
    options: dict[str, Any] = request.model_dump(mode="json", exclude_unset=True, exclude=_PAGE_OPTIONS)
    question = request.questions[0].text
    whole = {"questions": [question], **options}
    body = shlex.quote(json.dumps(whole, ensure_ascii=False))
    keywords = "".join(f", {name}={value!r}" for name, value in options.items())
    arguments = {"query": question, **{name: options[name] for name in _TOOL_OPTIONS if name in options}}
    tool = {"name": "chorale_search", "arguments": arguments}
    return {
        "curl": f'curl -sS {origin}/v1/searches -H "Authorization: Bearer $KEY" '
        f"-H 'Content-Type: application/json' -d {body}",
        "Python": f"from chorale_client import Chorale\n\nanswer = Chorale().retrieve({question!r}{keywords})",
        "Celery": f"answer = app.send_task({TASK_RETRIEVE!r}, args=[{whole!r}], queue={QUEUE_RETRIEVE!r}).get(timeout=60)",
        "MCP": json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}, ensure_ascii=False, indent=2
        ),
    }
