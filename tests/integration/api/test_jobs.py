"""Bulk jobs over HTTP, asked of a real server over a running pipeline."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from api.jobs.routes import RESULT_TYPES
from records.jobs.job import Outcome, State
from records.jobs.store import Jobs
from tests.support.jobs import answered, ended, lines, next_segment, result, submitted
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

JSONL = {"Content-Type": "application/jsonl"}
CSV = {"Content-Type": "text/csv"}
BREAD = b'{"id": "a", "text": "how is bread baked?"}\n{"id": "b", "text": "bread", "top_k": 1}\n'


@pytest.fixture(scope="module")
def bulk(api_pipeline: RunningPipeline) -> Iterator[RunningPipeline]:
    """The pipeline with a worker of bulk jobs."""
    api_pipeline.start("chorale.bulk")
    api_pipeline.wait_ready(["chorale.bulk"])
    yield api_pipeline
    api_pipeline.kill("chorale.bulk")


@pytest.fixture
def someone(idle_api: HttpApi) -> Iterator[httpx.Client]:
    """A client of the tenant `someone`, whose jobs nobody answers."""
    with idle_api.client("someone") as client:
        yield client


def new_id(tenant: str = "someone") -> str:
    return f"t.{tenant}.{uuid.uuid4().hex}"


def submit(client: httpx.Client, body: Any = BREAD, headers: Any = JSONL, **options: Any) -> dict[str, Any]:
    response = client.post("/v1/jobs", content=body, headers=headers, params=options)
    assert response.status_code == 201, response.text
    job: dict[str, Any] = response.json()
    assert response.headers["location"] == f"/v1/jobs/{job['job_id']}"
    return job


def wait_ended(client: httpx.Client, job_id: str) -> dict[str, Any]:
    def ended_job() -> dict[str, Any] | None:
        job: dict[str, Any] = client.get(f"/v1/jobs/{job_id}").json()
        return job if job["state"] == "ended" else None

    job = until(ended_job, 60)
    assert job is not None
    return job


def test_a_file_of_questions_is_answered_and_its_results_are_read_in_every_format(
    acme: httpx.Client, bulk: RunningPipeline
) -> None:
    job = submit(acme, name="bread.jsonl", options='{"include": ["ids"]}')
    assert (job["state"], job["total"], job["name"]) == ("queued", 2, "bread.jsonl")
    assert job["job_id"].startswith("t.acme.")
    assert job["tenant"] == "acme"
    assert wait_ended(acme, job["job_id"])["outcome"] == "completed"
    results = f"/v1/jobs/{job['job_id']}/results"
    page = acme.get(results).json()
    assert [(line["line"], line["id"], line["status"]) for line in page["lines"]] == [
        (1, "a", "complete"),
        (2, "b", "complete"),
    ]
    assert [len(line["hits"]) > 1 for line in page["lines"]] == [True, False]
    assert page["lines"][0]["hits"][0]["document_id"] == "bread"
    assert (page["next"], page["is_ended"]) == (2, True)
    for form, beginning in (
        ("jsonl", b"{"),
        ("csv", b"line,id,"),
        ("trec", b"a Q0 bread 1"),
        ("parquet", b"PAR1"),
    ):
        response = acme.get(results, params={"format": form})
        assert (response.status_code, response.headers["content-type"]) == (200, RESULT_TYPES[form])
        assert response.content.startswith(beginning)


def test_csv_is_read(someone: httpx.Client) -> None:
    assert submit(someone, b"id,text,top_k\nq1,bread,2\n\nq2,tea,\n", CSV)["total"] == 2


def test_lines_are_stored_while_the_upload_goes_on(someone: httpx.Client, store: Jobs) -> None:
    seen: list[int] = []

    def stored() -> int:
        return sum(job.total for job in store.last(100) if job.name == "slow")

    def body() -> Iterator[bytes]:
        for number in range(1, 1_001):
            yield json.dumps({"text": f"question {number} " + "x" * 100}).encode() + b"\n"
            if number == 1_000:
                until(stored, 20)
                seen.append(stored())

    job = submit(someone, body(), name="slow")
    assert 0 < seen[0] < job["total"] == 1_000
    someone.post(f"/v1/jobs/{job['job_id']}/cancel")


def test_wrong_lines_are_named_and_refuse_the_job_or_are_skipped(someone: httpx.Client, store: Jobs) -> None:
    wrong = b'{"text": "bread"}\n{"text": ""}\nnothing\n'
    response = someone.post("/v1/jobs", content=wrong, headers=JSONL)
    document = response.json()
    assert (response.status_code, document["code"], document["wrong"]) == (422, "invalid", 2)
    assert [line["line"] for line in document["lines"]] == [2, 3]
    assert document["lines"][0]["error"] == "text: empty"
    assert store.get(document["job_id"]).outcome == Outcome.FAILED
    job = submit(someone, wrong, on_error="skip")
    assert (job["total"], job["counts"]["refused"]) == (3, 2)
    assert [line["line"] for line in job["wrong_lines"]] == [2, 3]


@pytest.mark.parametrize(
    ("call", "status", "said"),
    [
        ({"content": b"", "headers": JSONL}, 422, "there is no line"),
        ({"content": BREAD, "headers": {"Content-Type": "application/pdf"}}, 415, "Content-Type: there are:"),
        ({"content": BREAD, "headers": JSONL | {"Content-Encoding": "gzip"}}, 415, "uncompressed"),
        ({"content": BREAD, "headers": JSONL, "params": {"deadline_s": -1}}, 422, "deadline_s"),
        (
            {"content": BREAD, "headers": JSONL, "params": {"options": "[]"}},
            422,
            "options: not a JSON object",
        ),
        ({"files": {"file": b"text\n"}}, 415, "Content-Type: there are:"),
        ({"content": BREAD, "headers": JSONL | {"Idempotency-Key": "ü"}}, 400, "Idempotency-Key"),
        (
            {"content": BREAD, "headers": JSONL, "params": {"on_end": '{"task": "told", "queue": "app"}'}},
            422,
            "CHORALE_ON_END_QUEUES",
        ),
    ],
)
def test_a_submission_that_cannot_be_done_says_why(
    someone: httpx.Client, call: dict[str, Any], status: int, said: str
) -> None:
    if "Idempotency-Key" in (call.get("headers") or {}):
        call["headers"] = {name: value.encode() for name, value in call["headers"].items()}
    response = someone.post("/v1/jobs", **call)
    assert response.status_code == status, response.text
    assert said in response.json()["detail"]


def test_jobs_are_listed_newest_first_page_by_page(idle_api: HttpApi) -> None:
    with idle_api.client("lists", scopes=frozenset({"jobs:write"})) as client:
        ids: list[str] = []
        for _ in range(5):
            ids.insert(0, submit(client)["job_id"])
            time.sleep(0.002)
        first = client.get("/v1/jobs", params={"limit": 3}).json()
        rest = client.get("/v1/jobs", params={"limit": 3, "after": first["next"]}).json()
        assert [job["job_id"] for page in (first, rest) for job in page["jobs"]] == ids
        assert rest["next"] is None
        assert client.get("/v1/jobs", params={"after": "?"}).status_code == 422


def test_results_are_read_by_cursor_while_the_job_runs(someone: httpx.Client, store: Jobs) -> None:
    job = submitted(store, new_id(), [lines(64), lines(64, first=65)])
    answered(store, job, segments=1)
    first = someone.get(f"/v1/jobs/{job}/results", params={"limit": 40}).json()
    assert (len(first["lines"]), first["next"], first["is_ended"]) == (40, 40, False)
    rest = someone.get(f"/v1/jobs/{job}/results", params={"after": 40}).json()
    assert (rest["lines"][0]["line"], rest["next"]) == (41, 64)
    nothing = someone.get(f"/v1/jobs/{job}/results", params={"after": 64}).json()
    assert nothing == {"lines": [], "next": 64, "is_ended": False}


def test_a_job_is_paused_resumed_cancelled_answered_again_compared_and_deleted(
    someone: httpx.Client, store: Jobs
) -> None:
    job = submitted(store, new_id(), [lines(2)])
    path = f"/v1/jobs/{job}"
    assert someone.post(f"{path}/pause").json()["state"] == "paused"
    assert someone.post(f"{path}/resume").json()["state"] == "queued"
    assert someone.delete(path).status_code == 409
    assert someone.post(f"{path}/cancel").json()["state"] == "cancelling"
    assert store.end(job, Outcome.CANCELLED, now_ms=50)
    assert someone.post(f"{path}/pause").status_code == 409
    again = someone.post(f"{path}/retry", json={"only": ["expired"]}).json()
    assert (again["lines"], again["job"]["state"]) == (2, "queued")
    assert someone.get(f"{path}/comparison", params={"other": job}).status_code == 409
    ended(store, job, {1: result("degraded")})
    compared = someone.get(f"{path}/comparison", params={"other": job}).json()
    assert (compared["lines"], compared["equal_top_hits"]) == (2, 1.0)
    assert someone.delete(path).status_code == 204
    assert someone.get(path).status_code == 404


def test_ended_jobs_of_the_caller_are_deleted_by_their_age(someone: httpx.Client, store: Jobs) -> None:
    own, other = (
        ended(store, submitted(store, new_id(tenant), [lines(1)])) for tenant in ("someone", "other")
    )
    removed = someone.delete("/v1/jobs", params={"ended_before": "1970-01-02T00:00:00Z"})
    assert removed.json()["removed"] >= 1
    assert someone.get(f"/v1/jobs/{own}").status_code == 404
    assert store.get(other).total == 1


def test_a_key_for_another_namespace_neither_sees_nor_ends_a_job_of_its_tenant(
    idle_api: HttpApi, store: Jobs
) -> None:
    job = submitted(store, new_id(), [lines(1)])
    with idle_api.client("someone", namespaces=frozenset({"law"})) as narrow:
        for method, path in (("GET", job), ("POST", f"{job}/cancel"), ("GET", f"{job}/results")):
            assert narrow.request(method, f"/v1/jobs/{path}").status_code == 404
        assert narrow.get("/v1/jobs").json()["jobs"] == []
    assert store.get(job).state == State.QUEUED


def test_a_grant_binds_every_line(idle_api: HttpApi, store: Jobs) -> None:
    rights = {"namespaces": frozenset({"default"}), "filters": {"year": 2020}, "max_top_k": 3, "weight": 2.0}
    rows = [
        {"text": "plain"},
        {"text": "narrower", "filters": {"year": {"gte": 2000}}},
        {"text": "too many", "top_k": 4},
        {"questions": ["one", "two"]},
    ]
    body = b"\n".join(json.dumps(line).encode() for line in rows)
    with idle_api.client("bound", scopes=frozenset({"jobs:write"}), **rights) as client:
        assert (
            client.post("/v1/jobs", content=body, headers=JSONL, params={"namespace": "law"}).status_code
            == 404
        )
        job = submit(client, body, on_error="skip")
        assert (job["weight"], job["tenant"]) == (2.0, "bound")
        assert [line["error"] for line in job["wrong_lines"]] == [
            "top_k: 4 is more than this key allows; its maximum is 3"
        ]
        refused = client.post("/v1/jobs", content=body, headers=JSONL, params={"on_end": "{}"})
        assert refused.status_code == 403
    segment = next_segment(store, job["job_id"])
    accepted = [line.fields for line in segment.lines if line.fields is not None]
    assert [fields["top_k"] for fields in accepted] == [3, 3, 3]
    assert all("2020" in json.dumps(fields["filters"]) for fields in accepted)


def test_a_misspelt_parameter_and_an_unknown_method_say_what_there_is(someone: httpx.Client) -> None:
    misspelt = someone.get("/v1/jobs", params={"limt": 3})
    assert (misspelt.status_code, misspelt.json()["field"]) == (422, "limt")
    assert misspelt.json()["detail"] == "limt: unknown parameter; there are: limit, after"
    unknown = someone.put("/v1/jobs")
    assert (unknown.status_code, unknown.headers["allow"]) == (405, "DELETE, GET, POST")


def test_a_webhook_of_a_key_s_job_is_signed_with_the_secret_of_that_key(idle_api: HttpApi) -> None:
    params = {"on_end": '{"url": "https://example.org/ended"}'}
    with idle_api.client(scopes=frozenset({"admin"})) as client:
        job = submit(client, **params)
        key_id = client.headers["authorization"].split("_")[1]
    assert job["on_end"] == {"url": "https://example.org/ended", "key_id": key_id}
