"""The stages of a search as server-sent events."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx

from tests.integration.api.test_searches import BREAD, LONG, SEARCHES
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi

ASYNC = {"Prefer": "respond-async"}


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """The events of a stream with their id and name."""
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield {"id": fields["id"], "event": fields["event"], **json.loads(fields["data"])}
            fields = {}


def test_the_stages_come_in_order_and_the_last_has_the_answer(acme: httpx.Client) -> None:
    location = acme.post(SEARCHES, json={**BREAD, "cache": "bypass"}, headers=ASYNC).headers["location"]
    with acme.stream("GET", f"{location}/events") as stream:
        seen = list(events(stream))
    stages = [one["stage"] for one in seen]
    assert stages == ["accepted", "planned", "branch", "branch", "branch", "fusing", "ended"]
    assert {one["branch"]: one["status"] for one in seen if one["stage"] == "branch"} == {
        "bm25": "ok",
        "vector": "ok",
        "hyde": "ok",
    }
    assert all((one["event"], one["v"]) == (one["stage"], 1) for one in seen)
    assert {one["request_id"] for one in seen} == {location.rpartition("/")[2]}
    assert seen[-1]["answer"] == acme.get(location).json()
    with acme.stream("GET", f"{location}/events", params={"include": "stages"}) as stream:
        *_, last = events(stream)
    assert last["answer"] == acme.get(location, params={"include": "stages"}).json()
    assert last["answer"]["stages"]


def test_a_reader_goes_on_after_the_last_event_that_it_has(acme: httpx.Client) -> None:
    location = acme.post(SEARCHES, json=BREAD, headers={"Prefer": "wait=20"}).json()["request_id"]
    where = f"{SEARCHES}/{location}/events"
    with acme.stream("GET", where) as stream:
        seen = list(events(stream))
    for place, one in enumerate(seen[:-1]):
        with acme.stream("GET", where, headers={"Last-Event-ID": one["id"]}) as stream:
            assert list(events(stream)) == seen[place + 1 :]
    # EventSource connects again until it gets this status.
    assert acme.get(where, headers={"Last-Event-ID": seen[-1]["id"]}).status_code == 204


def test_a_reader_sees_a_stage_when_it_happens_and_the_end_at_once(
    api_pipeline: RunningPipeline, acme: httpx.Client, api: HttpApi
) -> None:
    api_pipeline.pause("chorale.hyde")
    try:
        body = {**LONG, "cache": "bypass"}
        location = acme.post(SEARCHES, json=body, headers=ASYNC).headers["location"]
        with acme.stream("GET", f"{location}/events") as stream:
            coming = events(stream)
            first = [next(coming)["stage"] for _ in range(4)]
            assert first == ["accepted", "planned", "branch", "branch"]
            with api.client() as another:
                cancelling = threading.Timer(0.1, another.delete, [location])
                cancelling.start()
                last = list(coming)
                cancelling.join()
        assert last[-1]["status"] == "cancelled"
    finally:
        api_pipeline.resume("chorale.hyde")


def test_a_stream_ends_when_its_key_is_revoked(api_pipeline: RunningPipeline, api: HttpApi) -> None:
    api_pipeline.pause("chorale.hyde")
    try:
        with api.client("gone") as client:
            location = client.post(SEARCHES, json={**LONG, "cache": "bypass"}, headers=ASYNC).headers[
                "location"
            ]
            with client.stream("GET", f"{location}/events") as stream:
                coming = events(stream)
                begun = [next(coming)["stage"] for _ in range(4)]
                assert begun == ["accepted", "planned", "branch", "branch"]
                api.revoke(client)
                # The stream ends before the search, whose third branch hangs.
                assert list(coming) == []
            assert client.get(f"{location}/events").status_code == 401
    finally:
        api_pipeline.resume("chorale.hyde")
