"""Bulk jobs: their progress, rate and time left, and what can be done with each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from anyio import to_thread
from chorale_client.errors import InvalidRequest, safe_repr

from access import changes
from api import jobs
from api.job_documents import Retry
from console.pages import Page, Visit
from jobs.job import State

Act = Callable[[Visit, str], Awaitable[object]]


async def show(visit: Visit) -> dict[str, Any]:
    after = visit.parameters.get("after")
    page = await to_thread.run_sync(
        lambda: jobs.list_jobs(visit.session.grant, visit.services, limit=50, after=after)
    )
    data = page.model_dump(mode="json")
    for job in data["jobs"]:
        job["actions"] = actions_of(job["state"], job["counts"]) if visit.session.has("jobs:write") else {}
    return data


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


async def _retry(visit: Visit, job_id: str) -> object:
    return await jobs.retry_job(job_id, Retry(), visit.session.grant, visit.services)


def _in_a_thread(act: Callable[..., object]) -> Act:
    async def run(visit: Visit, job_id: str) -> object:
        return await to_thread.run_sync(act, job_id, visit.session.grant, visit.services)

    return run


ACTIONS: Mapping[str, Act] = {
    "pause": _in_a_thread(jobs.pause_job),
    "resume": _in_a_thread(jobs.resume_job),
    "cancel": _in_a_thread(jobs.cancel_job),
    "retry": _retry,
}


async def act(visit: Visit, form: Mapping[str, str]) -> str:
    """Raises Forbidden, InvalidRequest, WrongState, and a Problem for an unknown job."""
    grant, services = visit.session.grant, visit.services
    grant.require("jobs:write")
    action, job_id = form.get("action", ""), form.get("job", "")
    if action not in ACTIONS:
        raise InvalidRequest(f"action: no {safe_repr(action)}; there are: {', '.join(ACTIONS)}")
    await ACTIONS[action](visit, job_id)
    who = visit.session.key_name
    await to_thread.run_sync(changes.record, services.database, grant, who, f"{action} job", job_id)
    return "/jobs"


PAGES = (Page("/jobs", "Jobs", "jobs.html", show, ("search:read", "jobs:write"), post=act),)
