"""Searches over HTTP, asked of a real server over a running pipeline."""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from chorale_client import Answer

from api.problems import ProblemDocument
from tests.support.faults.moments import joining_without_one_branch
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

BREAD = {"questions": ["how is bread baked?"]}
LONG = {**BREAD, "timeout_s": 60}
SEARCHES = "/v1/searches"


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document, checked to be whole."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document.keys() >= ProblemDocument.model_fields.keys()
    assert (document["status"], document["code"]) == (status, code)
    return document


def test_a_search_is_answered_as_the_client_answers_it(acme: httpx.Client) -> None:
    response = acme.post(SEARCHES, json={**BREAD, "cache": "bypass"})
    assert response.status_code == 200, response.text
    assert response.headers["chorale-status"] == "complete"
    answer = Answer.from_wire(response.content)
    assert answer.status == "complete"
    assert answer.hits[0].document_id == "bread"
    assert answer.request_id.startswith("t.acme.")
    assert response.json()["coverage"] == {"bm25": "ok", "vector": "ok", "hyde": "ok"}
    again = acme.get(f"{SEARCHES}/{answer.request_id}")
    assert (again.status_code, again.json()) == (200, response.json())


def test_an_answer_repeats_top_k_both_depths_and_rerank(acme: httpx.Client) -> None:
    answer = acme.post(SEARCHES, json={**BREAD, "top_k": 2, "depth": 9}).json()
    repeated = {"top_k": 2, "depth": 9, "rerank": "off", "rerank_depth": None}
    assert {name: answer[name] for name in repeated} == repeated


def test_an_answer_has_the_stages_only_if_include_names_them(acme: httpx.Client) -> None:
    short = acme.post(SEARCHES, json={**BREAD, "cache": "bypass"})
    whole = acme.post(
        SEARCHES, json={**BREAD, "cache": "bypass", "include": ["ids", "metadata", "snippets", "stages"]}
    )
    assert "stages" not in short.json()
    stages = {one["stage"]: one for one in whole.json()["stages"]}
    assert stages.keys() >= {"plan", "search.bm25", "search.vector", "search.hyde", "fuse", "fetch"}
    # The rest of the answer does not depend on them.
    assert whole.json().keys() - short.json().keys() == {"stages"}
    assert [one["document_id"] for one in whole.json()["questions"][0]["hits"]] == [
        one["document_id"] for one in short.json()["questions"][0]["hits"]
    ]
    alone = acme.post(SEARCHES, json={**BREAD, "include": ["stages"]}).json()
    assert alone["stages"]
    assert {*alone["questions"][0]["hits"][0]} == {"rank", "document_id", "passage_id", "score", "score_kind"}
    where = f"{SEARCHES}/{short.json()['request_id']}"
    for ask in (acme.get, acme.delete):
        assert ask(where).json() == short.json()
        assert ask(where, params={"include": "stages"}).json()["stages"]


@pytest.mark.parametrize("questions", [None, [None], [{"text": None}], [""]])
def test_a_question_that_is_null_has_no_hits_and_no_error(acme: httpx.Client, questions: Any) -> None:
    response = acme.post(SEARCHES, json={"questions": questions})
    assert (response.status_code, response.headers["chorale-status"]) == (200, "skipped"), response.text
    assert [question.get("hits", []) for question in response.json()["questions"]] == [[]]


def test_hits_are_answered_without_empty_fields(acme: httpx.Client) -> None:
    hits = acme.post(SEARCHES, json=BREAD).json()["questions"][0]["hits"]
    assert len(hits) == 5
    assert [(name, value) for hit in hits for name, value in hit.items() if value in (None, "", [])] == []


def test_a_degraded_answer_says_without_stages_what_is_missing_and_why(
    api_pipeline: RunningPipeline, acme: httpx.Client
) -> None:
    api_pipeline.pause("chorale.hyde")
    try:
        with joining_without_one_branch(api_pipeline):
            answer = acme.post(SEARCHES, json={**BREAD, "cache": "bypass", "timeout_s": 20}).json()
    finally:
        api_pipeline.resume("chorale.hyde")
    assert (answer["status"], "stages" in answer) == ("degraded", False)
    ((missing),) = answer["degraded"]
    assert missing.keys() == {"where", "reason", "detail"}
    assert missing["where"] == "search.hyde"
    assert answer["coverage"] == {"bm25": "ok", "vector": "ok", "hyde": missing["reason"]}
    assert answer["warnings"] == []


def test_a_wrong_part_is_refused_with_the_parts_that_there_are(acme: httpx.Client) -> None:
    document = problem(acme.post(SEARCHES, json={**BREAD, "include": ["ids", "stage"]}), 422, "invalid")
    assert document["field"] == "include.1"
    for part in ("ids", "metadata", "snippets", "texts", "explanation", "context", "stages"):
        assert f"'{part}'" in document["detail"]
    document = problem(acme.get(f"{SEARCHES}/t.acme.x", params={"include": "hits"}), 422, "invalid")
    assert (document["field"], "'stages'" in document["detail"]) == ("include.0", True)


def test_a_search_that_does_not_end_in_time_is_accepted(idle_api: HttpApi) -> None:
    with idle_api.client() as client:
        begun = time.monotonic()
        response = client.post(SEARCHES, json=LONG, headers={"Prefer": "wait=1"})
        assert time.monotonic() - begun >= 1
        assert response.status_code == 202
        assert response.headers["preference-applied"] == "wait=1"
        assert response.headers["retry-after"] == "1"
        assert response.headers["chorale-status"] == "accepted"
        assert response.json() == {"v": 1, "request_id": response.json()["request_id"], "status": "accepted"}
        assert response.headers["location"] == f"{SEARCHES}/{response.json()['request_id']}"
        later = client.get(response.headers["location"], params={"wait": 0.2})
        assert (later.status_code, later.json()) == (202, response.json())
        known = client.get(response.headers["location"], params={"partial": True})
        assert (known.status_code, known.json()) == (202, {**response.json(), "coverage": {}})


def test_what_is_known_so_far_names_each_branch(api_pipeline: RunningPipeline, acme: httpx.Client) -> None:
    api_pipeline.pause("chorale.hyde")
    try:
        body = {**LONG, "cache": "bypass", "timeout_s": 20}
        location = acme.post(SEARCHES, json=body, headers={"Prefer": "respond-async"}).headers["location"]

        def known() -> dict[str, str]:
            response = acme.get(location, params={"partial": True})
            assert (response.status_code, response.headers["chorale-status"]) == (
                202,
                response.json()["status"],
            )
            return response.json()["coverage"]  # type: ignore[no-any-return]

        until(lambda: known() == {"bm25": "ok", "vector": "ok", "hyde": "running"})
    finally:
        api_pipeline.resume("chorale.hyde")
    assert acme.get(location, params={"wait": 20}).status_code == 200


def test_a_search_whose_caller_goes_away_is_cancelled_unless_the_caller_can_come_back(
    idle_api: HttpApi,
) -> None:
    where, body = httpx.URL(idle_api.origin), json.dumps(LONG)

    def hung_up(more: str = "") -> set[bytes]:
        """The keys of a search whose caller closed the connection when it was in flight."""
        before = {*redis.scan_iter("chorale:request:*")}
        head = f"POST {SEARCHES} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {idle_api.key()}\r\n{more}"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((where.host, where.port)) as connection:
            connection.sendall((head + body).encode())
            return until(lambda: {*redis.scan_iter("chorale:request:*")} - before)

    with idle_api.redis() as redis:
        lost, running = hung_up(), hung_up(f"Idempotency-Key: {uuid.uuid4()}\r\n")
        until(lambda: not redis.exists(*lost))
        time.sleep(0.3)
        assert redis.exists(*running)


def test_a_caller_need_not_wait(idle_api: HttpApi) -> None:
    with idle_api.client() as client:
        response = client.post(SEARCHES, json=LONG, headers={"Prefer": "respond-async, wait=0"})
        assert (response.status_code, response.headers["preference-applied"]) == (
            202,
            "respond-async, wait=0",
        )


def test_a_cancelled_search_ends_for_everybody_who_waits(idle_api: HttpApi) -> None:
    with idle_api.client() as client, idle_api.client() as waiting, ThreadPoolExecutor(1) as pool:
        location = client.post(SEARCHES, json=LONG, headers={"Prefer": "respond-async"}).headers["location"]
        waits = pool.submit(waiting.get, location, params={"wait": 20})
        cancelled = client.delete(location)
        assert (cancelled.status_code, cancelled.headers["chorale-status"]) == (200, "cancelled")
        assert waits.result().json() == cancelled.json()
        assert client.delete(location).json() == cancelled.json()


def test_a_search_in_a_namespace_that_is_not_there_is_not_found(acme: httpx.Client) -> None:
    document = problem(acme.post(SEARCHES, json={**BREAD, "namespace": "nowhere"}), 404, "not_found")
    assert document["detail"].startswith("there is no namespace 'nowhere'")
    assert (document["field"], document["retryable"]) == ("namespace", False)


def test_a_failed_search_is_a_problem_with_its_answer(idle_api: HttpApi) -> None:
    with idle_api.client() as client:
        response = client.post(SEARCHES, json={**BREAD, "timeout_s": 0.3})
    document = problem(response, 503, "failed")
    assert response.headers["chorale-status"] == document["answer"]["status"] == "failed"
    assert document["request_id"] == document["answer"]["request_id"]
    assert document["answer"]["degraded"]
    assert "stages" not in document["answer"]
    # No worker was there; one may be there the next time.
    assert (document["retryable"], "retry-after" in response.headers) == (True, True)


def test_a_refused_search_says_when_to_ask_again(idle_api: HttpApi) -> None:
    with idle_api.redis() as redis, idle_api.client() as client:
        redis.hset("chorale:overload", "retry_after_ms", 2500)
        try:
            response = client.post(SEARCHES, json=BREAD)
        finally:
            redis.delete("chorale:overload")
        document = problem(response, 429, "refused")
        assert (response.headers["retry-after"], document["retryable"]) == ("3", True)
        assert response.headers["chorale-status"] == "refused"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"questions": ["x"], "top_k": 0}, "top_k"),
        ({"questions": ["x"], "topk": 3}, "topk"),
        ({"questions": []}, "questions"),
        ({}, "questions"),
        (
            {"questions": [{"text": "x", "variants": [{"kind": "odd", "text": "y"}]}]},
            "questions.0.variants.0.kind",
        ),
        ({"questions": ["x"], "group_by": {"field": "url", "size": 0}}, "group_by.size"),
        ({"questions": ["x"] * 64, "depth": 1000}, "depth"),
        ({"questions": ["x"], "request_id": "mine"}, "request_id"),
        ({"questions": ["x"], "on_end": {"task": "theirs", "queue": "app"}}, "on_end"),
        ({"questions": ["x"], "linked": [{"task": "theirs", "queue": "app"}]}, "linked"),
        ({"questions": ["x"], "headers": {"tenant": "theirs"}}, "headers"),
        ({"questions": ["x"], "namespace": "Not so"}, "namespace"),
        ({"questions": ["x"], "filters": {"a": {"b": 1}}}, "filters"),
    ],
)
def test_a_wrong_field_is_named(acme: httpx.Client, body: dict[str, Any], field: str) -> None:
    document = problem(acme.post(SEARCHES, json=body), 422, "invalid")
    assert (document["field"], document["retryable"]) == (field, False)


def test_a_body_that_is_not_json_and_unknown_paths_and_methods_are_problems(acme: httpx.Client) -> None:
    for content in (b"{", b"\xff", b"[" * 100_000, b""):
        response = acme.post(SEARCHES, content=content, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 422), response.text
        assert response.headers["content-type"] == "application/problem+json"
    problem(acme.get("/v1/nothing"), 404, "not_found")
    assert problem(acme.put(SEARCHES, json=BREAD), 405, "method_not_allowed")


def test_a_large_body_is_refused_while_it_arrives(api: HttpApi, acme: httpx.Client) -> None:
    head = f"POST {SEARCHES} HTTP/1.1\r\nHost: x\r\nAuthorization: {acme.headers['authorization']}\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    where = httpx.URL(api.origin)
    with socket.create_connection((where.host, where.port), timeout=10) as sending:
        sending.sendall(head.encode())
        for _ in range(11):  # and the body goes on
            sending.sendall(b"186a0\r\n" + b" " * 100_000 + b"\r\n")
        assert sending.recv(100).startswith(b"HTTP/1.1 413 ")
    problem(acme.post(SEARCHES, content=b" " * 1_000_001), 413, "too_large")


def test_no_origin_is_allowed_to_ask_from_a_browser(acme: httpx.Client) -> None:
    response = acme.post(SEARCHES, json=BREAD, headers={"Origin": "https://example.org"})
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_an_idempotency_key_makes_a_call_once(api: HttpApi, acme: httpx.Client) -> None:
    key = {"Idempotency-Key": f'"{uuid.uuid4()}"'}
    first, second = (acme.post(SEARCHES, json=BREAD, headers=key) for _ in range(2))
    assert first.status_code == 200
    assert first.json() == second.json()
    other = acme.post(SEARCHES, json={**BREAD, "top_k": 3}, headers=key)
    problem(other, 422, "key_reused")
    with api.client("acme") as another_key:
        third = another_key.post(SEARCHES, json={**BREAD, "top_k": 3}, headers=key)
        assert third.status_code == 200
        assert third.json()["request_id"] != first.json()["request_id"]
    elsewhere, without_key = (
        acme.post(SEARCHES, json={**BREAD, "namespace": "elsewhere"}, headers=headers)
        for headers in (key, {})
    )
    # The API does not take it for a key that was used with another request.
    assert elsewhere.status_code == without_key.status_code != 422
    for wrong in ("", '"', '""', "a" * 256, 'a"b'):
        document = problem(
            acme.post(SEARCHES, json=BREAD, headers={"Idempotency-Key": wrong}), 400, "malformed"
        )
        assert document["field"] == "Idempotency-Key"


def test_calls_with_one_idempotency_key_that_race_are_one_search(idle_api: HttpApi) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4()), "Prefer": "respond-async"}
    start = threading.Barrier(4)

    def call(_: int) -> httpx.Response:
        start.wait()
        return client.post(SEARCHES, json=LONG, headers=headers)

    with idle_api.client() as client, ThreadPoolExecutor(4) as pool:
        responses = list(pool.map(call, range(4)))
    assert {one.status_code for one in responses} == {202}
    assert len({one.headers["location"] for one in responses}) == 1


def test_a_key_is_refused_when_its_calls_of_the_minute_are_used_up(idle_api: HttpApi) -> None:
    with idle_api.client(requests_per_minute=2) as client:
        calls = [client.get(f"{SEARCHES}/t.acme.x") for _ in range(3)]
    assert [one.status_code for one in calls] == [404, 404, 429]
    document = problem(calls[2], 429, "rate_limited")
    assert document["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded"
    assert document["violated-policies"] == ["minute"]
    assert 1 <= int(calls[2].headers["retry-after"]) <= 60
    assert {one.headers["ratelimit-policy"] for one in calls} == {'"minute";q=2;w=60'}
    remaining = [one.headers["ratelimit"].split(";t=")[0] for one in calls]
    assert remaining == ['"minute";r=1', '"minute";r=0', '"minute";r=0']


def test_a_costly_search_counts_for_as_many_calls_as_it_costs(idle_api: HttpApi) -> None:
    # 10 questions with 8 documents of 1,600 characters: 10 * 8 * .046 s to embed, which is 15 quarters of a second.
    questions = [{"text": "rent", "hypothetical_documents": ["rent " * 320] * 8}] * 10
    headers = {"Prefer": "respond-async"}
    with idle_api.client(requests_per_minute=20) as client:
        costly = client.post(SEARCHES, json={"questions": questions}, headers=headers)
        plain = client.post(SEARCHES, json={"questions": ["rent"]}, headers=headers)
    assert [one.headers["ratelimit"].split(";t=")[0] for one in (costly, plain)] == [
        '"minute";r=5',
        '"minute";r=4',
    ]
