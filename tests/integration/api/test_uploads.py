"""Uploads of jobs that break off, asked of a real server."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest

from api.services import UPLOADS_OF_A_KEY
from records.jobs import submitting
from records.jobs.job import JobsUnavailable, Outcome, State
from records.jobs.store import Jobs
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

BREAD = b'{"text": "how is bread baked?"}\n'
JSONL = {"Content-Type": "application/jsonl"}


@pytest.fixture
def client(idle_api: HttpApi) -> Iterator[httpx.Client]:
    """A client of the tenant `uploads`, whose jobs nobody answers."""
    with idle_api.client("uploads") as client:
        yield client


def break_off(client: httpx.Client, key: str) -> None:
    """Begin an upload with this `Idempotency-Key`, and hang up before its end."""
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: api\r\nAuthorization: {client.headers['authorization']}\r\n"
        f"Content-Type: application/jsonl\r\nIdempotency-Key: {key}\r\nContent-Length: 1000\r\n\r\n"
    )
    with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as caller:
        caller.sendall(head.encode() + BREAD)


def test_an_upload_that_broke_off_is_repeated_with_its_idempotency_key(
    client: httpx.Client, store: Jobs
) -> None:
    break_off(client, "again")
    until(lambda: any(job.tenant == "uploads" and job.outcome == Outcome.FAILED for job in store.last(100)))
    headers = JSONL | {"Idempotency-Key": "again"}
    second, third = (client.post("/v1/jobs", content=BREAD, headers=headers) for _ in range(2))
    assert (second.status_code, second.json()["total"]) == (201, 1), second.text
    assert (third.status_code, third.json()["job_id"]) == (200, second.json()["job_id"])


def test_a_refused_file_is_corrected_and_submitted_with_its_idempotency_key(client: httpx.Client) -> None:
    headers = JSONL | {"Idempotency-Key": "corrected"}
    for _ in range(2):
        refused = client.post("/v1/jobs", content=b'{"text": ""}\n', headers=headers)
        assert (refused.status_code, refused.json()["lines"][0]["line"]) == (422, 1)
    assert client.post("/v1/jobs", content=BREAD, headers=headers).status_code == 201


def test_a_job_whose_lines_could_not_be_stored_names_no_server(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise JobsUnavailable("the database of the jobs cannot be used: no connection to 10.0.0.7, port 5432")

    monkeypatch.setattr(submitting, "INSIST_S", 0.0)
    monkeypatch.setattr(Jobs, "add", away)
    assert client.post("/v1/jobs", content=BREAD, headers=JSONL).status_code == 503
    (job,) = client.get("/v1/jobs", params={"limit": 1}).json()["jobs"]
    assert (job["outcome"], job["reason"]) == ("failed", "the lines could not be stored")


def begin(client: httpx.Client, body: bytes = BREAD) -> socket.socket:
    """An upload that has begun and does not end."""
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: api\r\nAuthorization: {client.headers['authorization']}\r\n"
        "Content-Type: application/jsonl\r\nContent-Length: 100000\r\n\r\n"
    )
    caller = socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=30)
    caller.sendall(head.encode() + body)
    return caller


def test_one_key_cannot_take_the_places_of_the_uploads_of_another(
    idle_api: HttpApi, client: httpx.Client, store: Jobs
) -> None:
    slow = [begin(client) for _ in range(UPLOADS_OF_A_KEY)]
    try:
        until(lambda: sum(job.state == State.VALIDATING for job in store.last(100)) == len(slow), 20)
        refused = client.post("/v1/jobs", content=BREAD, headers=JSONL)
        assert (refused.status_code, refused.json()["code"]) == (429, "refused")
        assert "uploads of this key" in refused.json()["detail"]
        with idle_api.client("other") as other:
            assert other.post("/v1/jobs", content=BREAD, headers=JSONL).status_code == 201
    finally:
        for caller in slow:
            caller.close()
    until(lambda: client.post("/v1/jobs", content=BREAD, headers=JSONL).status_code == 201, 20)
    # So that the log of the next test has no line of these uploads.
    until(lambda: not any(job.state == State.VALIDATING for job in store.last(100)))


def test_an_upload_that_is_cut_off_is_one_line_in_the_log(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    break_off(client, "cut-off")
    until(lambda: "cut off after" in caplog.text)
    assert len([record for record in caplog.records if record.name.startswith("api")]) == 1
    assert "Traceback" not in caplog.text
