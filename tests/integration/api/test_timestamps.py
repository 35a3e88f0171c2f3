"""Every moment in the answers of a real server has one form: RFC 3339 in UTC with milliseconds."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx

from tests.support.attacks.estate import estate, index_documents
from tests.support.attacks.routes import JSONL, ROUTES, call
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
DAY_S = 86_400
THEIR_NOW = "2026-11-26T06:46:24+01:00"
"""Half of the world writes its moments like this."""


def documents_of(response: httpx.Response) -> Iterator[Any]:
    """The JSON of a response, of each line, or of each event."""
    kind = response.headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        for line in response.text.splitlines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))
    elif "json" in kind and response.content:
        yield response.json()


def moments_in(part: Any, path: str = "") -> Iterator[tuple[str, str | float]]:
    """Each text that is a moment, and each number that is one of about today, with its place."""
    if isinstance(part, dict):
        for name, value in part.items():
            yield from moments_in(value, f"{path}.{name}")
    elif isinstance(part, list):
        for value in part:
            yield from moments_in(value, path)
    elif isinstance(part, str):
        if "T" in part and _is_moment(part):
            yield path, part
    elif isinstance(part, int | float):
        ages_s = [abs(time.time() - part / unit) for unit in (1, 1e3, 1e6)]
        if min(ages_s) < DAY_S:
            yield path, part


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def test_every_moment_in_the_answers_of_every_route_has_one_form(
    api: HttpApi, api_pipeline: RunningPipeline
) -> None:
    index_documents(api_pipeline)
    with estate(api) as zenith:
        client, ids = zenith.client, dict(zenith.ids)
        search = {"questions": ["bread"], "namespace": ids["namespace"], "now": THEIR_NOW}
        ids["request_id"] = client.post("/v1/searches", json=search).json()["request_id"]
        until(lambda: client.get(f"/v1/audit/{ids['request_id']}").status_code == 200)
        job = client.post(
            "/v1/jobs",
            content=b'{"text": "bread"}',
            headers=JSONL,
            params={"namespace": ids["namespace"], "deadline_s": 3600},
        )
        cancelled = client.post(f"/v1/jobs/{job.json()['job_id']}/cancel")
        # What deletes comes last.
        routes = sorted(ROUTES, key=lambda route: route.startswith("DELETE"))
        answers = [job, cancelled, *(call(client, route, ids) for route in routes)]
    seen = [
        moment
        for answer in answers
        for document in documents_of(answer)
        for moment in moments_in(document, f"{answer.request.method} {answer.request.url.path}")
    ]
    assert [moment for moment in seen if not FORM.fullmatch(str(moment[1]))] == []
    names = {path.rpartition(".")[2] for path, _ in seen}
    assert names >= {"created_at", "deadline_at", "ended_at", "accepted_at", "changed_at", "now"}
    assert "2026-11-26T05:46:24.000Z" in {moment for path, moment in seen if path.endswith(".options.now")}
