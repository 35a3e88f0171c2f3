"""Bulk jobs: their progress, rate and time left, and what can be done with each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from anyio import to_thread
from chorale_client.errors import InvalidRequest, safe_repr
from chorale_client.limits import MAX_LINES
from starlette.responses import Response, StreamingResponse

from api.caller import while_valid
from api.jobs import routes as jobs
from api.jobs.documents import Retry
from api.services import Services
from console import sessions
from console.pages import Page, Visit
from records.jobs.job import State
from records.keys import changes
from records.keys.grant import Grant

TENANTS = 50
"""The page shows the lines of at most so many tenants."""


async def show(visit: Visit) -> dict[str, Any]:
    after = visit.parameters.get("after")
    page = await to_thread.run_sync(
        lambda: jobs.list_jobs(visit.session.grant, visit.services, limit=50, after=after)
    )
    data = page.model_dump(mode="json")
    for job in data["jobs"]:
        job["actions"] = actions_of(job["state"], job["counts"]) if visit.session.has("jobs:write") else {}
    if visit.session.grant.is_operators:
        shares = await to_thread.run_sync(visit.services.jobs.shares, TENANTS + 1)
        data["shares"], data["has_more_tenants"] = shares[:TENANTS], len(shares) > TENANTS
    return data


async def download(visit: Visit) -> Response:
    """The results as far as they are there.  Raises OutOfScope, Problem."""
    job_id = visit.request.path_params["job_id"]
    form: Literal["jsonl", "csv"] = "csv" if visit.parameters.get("format") == "csv" else "jsonl"
    read = partial(jobs.read_results, after=0, limit=MAX_LINES, format_=form)
    response = await to_thread.run_sync(read, job_id, visit.session.grant, visit.services)
    if isinstance(response, StreamingResponse):

        async def is_valid() -> bool:
            return await sessions.current(visit.request, visit.services) is not None

        response.body_iterator = while_valid(is_valid, aiter(response.body_iterator))
    name = re.sub(r"[^A-Za-z0-9._-]", "_", job_id)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return response


def actions_of(state: str, counts: Mapping[str, int]) -> dict[str, str]:
    """What can be done with a job now: the text of the button by the name of the action."""
    if state == State.ENDED:
        again = sum(counts.get(status, 0) for status in _RETRIED)
        return {"retry": f"Retry {again:,} lines"} if again else {}
    if state == State.CANCELLING:
        return {}
    first = {"resume": "Resume"} if state == State.PAUSED else {"pause": "Pause"}
    return first | {"cancel": "Cancel"}


_RETRIED = ("failed", "expired", "cancelled")
"""The statuses of the lines that `retry` answers again."""


def _retry(job_id: str, grant: Grant, services: Services) -> object:
    return jobs.retry_job(job_id, Retry(), grant, services)


ACTIONS: Mapping[str, Callable[[str, Grant, Services], object]] = {
    "pause": jobs.pause_job,
    "resume": jobs.resume_job,
    "cancel": jobs.cancel_job,
    "retry": _retry,
}


async def act(visit: Visit, form: Mapping[str, str]) -> str:
    """Raises Forbidden, InvalidRequest, WrongState, and a Problem for an unknown job."""
    grant, services = visit.session.grant, visit.services
    grant.require("jobs:write")
    action, job_id = form.get("action", ""), form.get("job", "")
    if action not in ACTIONS:
        raise InvalidRequest(f"action: no {safe_repr(action)}; there are: {', '.join(ACTIONS)}")
    await to_thread.run_sync(ACTIONS[action], job_id, grant, services)
    who = visit.session.key_name
    await to_thread.run_sync(changes.record, services.database, grant, who, f"{action} job", job_id)
    return "/jobs"


_READERS = ("search:read", "jobs:write")
PAGES = (
    Page("/jobs", "Jobs", "jobs.html", show, _READERS, post=act),
    Page("/jobs/{job_id}/results", "Results", "jobs.html", download, _READERS, is_listed=False),
)
