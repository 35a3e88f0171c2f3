"""The search of the page as a command and as code, to be copied."""

from __future__ import annotations

import json
import shlex
from typing import Any

from chorale_client.request import Request
from chorale_client.wire_names import QUEUE_RETRIEVE, TASK_RETRIEVE

_OF_THE_PAGE = {"request_id", "v", "cache", "include", "questions"}
_OF_THE_TOOL = ("namespace", "top_k", "filters")
"""What `chorale_search` of `chorale mcp` takes."""


def calls_of(request: Request, origin: str) -> dict[str, str]:
    """By the way to ask; `origin` is the address of this API.  The code needs the variables `KEY` and `CHORALE_REDIS_URL`."""
    options: dict[str, Any] = request.model_dump(mode="json", exclude_unset=True, exclude=_OF_THE_PAGE)
    question = request.questions[0].text
    whole = {"questions": [question], **options}
    body = shlex.quote(json.dumps(whole, ensure_ascii=False))
    keywords = "".join(f", {name}={value!r}" for name, value in options.items())
    taken = {name: options[name] for name in _OF_THE_TOOL if name in options}
    tool = {"name": "chorale_search", "arguments": {"query": question, **taken}}
    return {
        "curl": f'curl -sS {origin}/v1/searches -H "Authorization: Bearer $KEY" '
        f"-H 'Content-Type: application/json' -d {body}",
        "Python": f"from chorale_client import Chorale\n\nanswer = Chorale().retrieve({question!r}{keywords})",
        "Celery": f"answer = app.send_task({TASK_RETRIEVE!r}, args=[{whole!r}], queue={QUEUE_RETRIEVE!r}).get(timeout=60)",
        "MCP": json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}, ensure_ascii=False, indent=2
        ),
    }
