"""Bulk jobs: their progress, rate and time left."""

from __future__ import annotations

from typing import Any

from anyio import to_thread

from api.jobs import list_jobs
from console.pages import Page, Visit


async def show(visit: Visit) -> dict[str, Any]:
    after = visit.parameters.get("after")
    page = await to_thread.run_sync(
        lambda: list_jobs(visit.session.grant, visit.services, limit=50, after=after)
    )
    return page.model_dump(mode="json")


PAGES = (Page("/jobs", "Jobs", "jobs.html", show, ("search:read", "jobs:write")),)
