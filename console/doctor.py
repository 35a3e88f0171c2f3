"""What `chorale doctor` finds, as a page of the operator: it runs as a process of its own, which may load models and takes seconds."""

from __future__ import annotations

import json
from typing import Any

from anyio import fail_after, run_process

from api.problems import Problem, not_found
from console.pages import Page, Visit

LONGEST_S = 120.0


async def show(visit: Visit) -> dict[str, Any]:
    """Raises Forbidden for another key than the operator's, and Problem."""
    visit.session.grant.require_operators()
    command = visit.request.app.state.doctor
    if command is None:
        raise not_found()
    try:
        with fail_after(LONGEST_S):
            examined = await run_process(command, check=False)
        checks = json.loads(examined.stdout)["checks"]
    except (TimeoutError, ValueError, KeyError, TypeError):
        raise Problem("unavailable", "`chorale doctor` gave no report") from None
    order = {"found": 0, "skipped": 1, "well": 2}
    return {"checks": sorted(checks, key=lambda check: order.get(check["status"], 0))}


PAGES = (Page("/health/doctor", "Doctor", "doctor.html", show, ("admin",), is_listed=False),)
