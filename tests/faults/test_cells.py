"""Two cells: each is a Redis with workers of its own; both search the same documents, and have one database of audit trail and jobs."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from chorale_client import Answer, Cells, ServiceUnavailable, UnknownRequest
from chorale_client.keys import ENTRY, RULES
from chorale_client.wire_names import QUEUE_BULK
from mcp import Client, StdioServerParameters
from prometheus_client.parser import text_string_to_metric_families

from tests.support.command_line import Called, in_process
from tests.support.faults.serving import serving
from tests.support.pipelines.bulk import HASTE
from tests.support.pipelines.pipeline import PYTHONPATH, ROOT, RunningPipeline
from tests.support.servers.databases import empty_database
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.webhook import SECRET, Hook
from tests.support.waiting import until

WORKER = ",".join(f"chorale.{name}" for name in ("retrieve", "bm25", "vector", "hyde", "fusion", "index"))
"""The one worker of a cell."""
QUESTIONS = [f"Who pays for repair {number}?" for number in range(12)]
QUESTIONS_OF_BOTH = QUESTIONS[4:8]
"""Two of them go to each cell."""
PRELOAD = f"{HASTE}from tasks.callbacks import job_ends\njob_ends.NEXT_CELL_S = 5.0\n"

pytestmark = [pytest.mark.slow, pytest.mark.limit_s(600)]
over = partial(pytest.mark.parametrize, indirect=["pipelines"], scope="module")
"""Names the databases of a test."""
DATABASES = [["sqlite"], ["postgresql"]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that names no database has SQLite."""
    marks = metafunc.definition.iter_markers("parametrize")
    if "pipelines" in metafunc.fixturenames and not any("pipelines" in mark.args[0] for mark in marks):
        metafunc.parametrize("pipelines", ["sqlite"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def pipelines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, RunningPipeline]]:
    """The documents are in the database too if it is PostgreSQL."""
    folder = tmp_path_factory.mktemp("cells")
    with ExitStack() as stack:
        audit_url = stack.enter_context(empty_database(request.param, folder))
        servers = {name: stack.enter_context(RedisServer()) for name in ("a", "b")}
        environment = {
            "CHORALE_HOME": str(folder / "home"),
            "CHORALE_AUDIT_URL": audit_url,
            "CHORALE_WEBHOOK_SECRET": SECRET,
            "CHORALE_WEBHOOK_HOSTS": "127.0.0.1",
            "CHORALE_CELLS": ",".join(f"{name}={server.url}" for name, server in servers.items()),
        }
        yield {
            name: stack.enter_context(
                serving([WORKER, QUEUE_BULK], server=server, environment=environment, preload=PRELOAD)
            )
            for name, server in servers.items()
        }


@pytest.fixture
def cells(pipelines: dict[str, RunningPipeline]) -> Iterator[Cells]:
    with closing(Cells({name: pipeline.client() for name, pipeline in pipelines.items()})) as cells:
        yield cells


def cell_of(request_id: str) -> str:
    return request_id.rpartition(".")[2]


def both_answer(cells: Cells) -> bool:
    """Whether each cell answers its share; a cell that has just come back might refuse requests while its queues are long."""
    answers = [cells.retrieve(question, timeout_s=10, cache="bypass") for question in QUESTIONS_OF_BOTH]
    return {cell_of(answer.request_id) for answer in answers if answer.status == "complete"} == {"a", "b"}


def test_each_cell_answers_its_share_and_the_id_finds_the_answer(cells: Cells) -> None:
    sent = [cells.send(question, timeout_s=30) for question in QUESTIONS]
    assert {cell_of(request_id) for request_id in sent} == {"a", "b"}
    for request_id in sent:
        assert cells.of(request_id).answer(request_id, wait_s=30).status == "complete"
    with pytest.raises(UnknownRequest, match="there are: a, b"):
        cells.of("r-1")


def test_an_equal_question_goes_to_the_same_cell_which_has_its_answer_in_the_cache(cells: Cells) -> None:
    for question in QUESTIONS[:4]:
        first, second = (cells.retrieve(question, timeout_s=30) for _ in range(2))
        assert second.cached
        assert cell_of(first.request_id) == cell_of(second.request_id)


@over(["pipelines"], DATABASES)
def test_documents_that_one_cell_writes_are_found_in_the_other_although_it_has_cached_an_answer(
    cells: Cells,
) -> None:
    writer = cells.writer("docs")
    (reader,) = (cell for cell in map(cells.of, ("x.a", "x.b")) if cell is not writer)

    def write(name: str) -> None:
        ticket = writer.upsert("docs", [{"id": name, "title": name, "text": f"The {name} is moored here."}])
        assert writer.wait_visible(ticket, wait_s=60).is_whole

    def search() -> Answer:
        return reader.retrieve("What is moored here?", namespace="docs", timeout_s=30)

    write("zeppelin")
    until(lambda: search().cached)
    write("balloon")
    until(lambda: "balloon" in {hit.document_id for hit in search().hits})
    until(lambda: search().cached)
    assert writer.wait_visible(writer.delete_namespace("docs"), wait_s=60).is_whole
    until(lambda: not search().hits)


@pytest.mark.parametrize("loss", ["killed", "silent"])
def test_a_lost_cell_costs_the_requests_that_it_has_accepted_and_no_new_one(
    cells: Cells, pipelines: dict[str, RunningPipeline], loss: str
) -> None:
    lost = pipelines["b"]
    cell_of_each = [cell_of(cells.retrieve(question, timeout_s=30).request_id) for question in QUESTIONS]
    its_share = cell_of_each.count("b")
    lost.pause(WORKER)
    with ThreadPoolExecutor(len(QUESTIONS)) as threads:
        futures = [
            threads.submit(cells.retrieve, question, timeout_s=12, cache="bypass") for question in QUESTIONS
        ]
        until(lambda: len(set(lost.redis.scan_iter(f"{ENTRY}*.b"))) == its_share)
        lost.server.kill() if loss == "killed" else lost.server.pause()
        errors = [one.exception() for one in futures]
    # The accepted requests of the lost cell end with this error; everybody else has an answer.
    assert [type(error) for error in errors if error] == [ServiceUnavailable] * its_share
    assert {cell_of(one.result().request_id) for one in futures if not one.exception()} == {"a"}
    for question in QUESTIONS:
        answer = cells.retrieve(question, timeout_s=30, cache="bypass")
        assert (answer.status, cell_of(answer.request_id)) == ("complete", "a")

    lost.server.start() if loss == "killed" else lost.server.resume()
    lost.resume(WORKER)
    until(lambda: both_answer(cells), 60)


def test_a_cell_whose_workers_are_lost_gets_no_new_request(
    cells: Cells, pipelines: dict[str, RunningPipeline]
) -> None:
    def cells_of_new_requests() -> set[str]:
        return {cell_of(cells.send(question, timeout_s=5)) for question in QUESTIONS}

    lost = pipelines["b"]
    assert cells_of_new_requests() == {"a", "b"}
    lost.kill(WORKER)
    until(lambda: cells_of_new_requests() == {"a"}, 60)
    for question in QUESTIONS:
        answer = cells.retrieve(question, timeout_s=30, cache="bypass")
        assert (answer.status, cell_of(answer.request_id)) == ("complete", "a")

    lost.start(WORKER)
    until(lambda: both_answer(cells), 60)


@pytest.fixture(scope="module")
def http(pipelines: dict[str, RunningPipeline]) -> Iterator[httpx.Client]:
    """A caller of an HTTP API that has no Redis of its own beside the cells."""
    settings = pipelines["a"].resources.settings.model_copy(update={"redis_url": None})
    with HttpApi(settings) as api, api.client(requests_per_minute=100_000) as client:
        yield client


def search(http: httpx.Client, question: str, prefer: str = "wait=30") -> httpx.Response:
    body = {"questions": [question], "timeout_s": 30, "cache": "bypass"}
    return http.post("/v1/searches", json=body, headers={"Prefer": prefer})


def answered_ids(http: httpx.Client) -> list[str]:
    responses = [search(http, question) for question in QUESTIONS]
    return [response.json()["request_id"] for response in responses if response.status_code == 200]


@over(["pipelines"], DATABASES)
def test_an_api_searches_in_all_cells_and_finds_each_search_by_its_id(http: httpx.Client) -> None:
    ids = [search(http, question).raise_for_status().json()["request_id"] for question in QUESTIONS]
    assert {cell_of(request_id) for request_id in ids} == {"a", "b"}
    for path in (f"/v1/searches/{request_id}" for request_id in ids):
        assert http.get(path).json()["status"] == "complete"
        assert http.delete(path).json()["status"] == "complete"
        assert "event: ended" in http.get(f"{path}/events").text
    # Both drainers write into one database.
    until(lambda: all(http.get(f"/v1/audit/{request_id}").is_success for request_id in ids))
    assert http.get("/v1/searches/t.acme.x").status_code == 404


def test_rules_are_in_every_cell_when_the_api_has_accepted_them(
    http: httpx.Client, pipelines: dict[str, RunningPipeline]
) -> None:
    path = "/v1/namespaces/default/rules"
    version = (
        http.put(path, json={"block": {"old": {"documents": ["old"]}}}).raise_for_status().json()["version"]
    )
    copies = [json.loads(cell.redis.hget(RULES, "default") or b"null") for cell in pipelines.values()]
    assert [copy["version"] for copy in copies] == [version] * 2
    http.put(path, json={}).raise_for_status()


def test_an_id_with_a_forged_cell_finds_nothing_and_learns_nothing_of_the_cells(http: httpx.Client) -> None:
    own, _, cell = search(http, QUESTIONS[0]).json()["request_id"].rpartition(".")
    tenants, other = own.rpartition(".")[0], {"a": "b", "b": "a"}[cell]
    forged = [own, *(f"{own}.{name}" for name in (other, "c", f".{cell}", f"{cell}.", f"{other}.{cell}"))]
    forged += [f"{own}.{name}" for name in (cell.upper(), f"{cell}\n", "\uff41", "\u0430", "a,b", "." * 500)]
    forged += [f"{tenants}.{cell}", f"x.{cell}", f"t.acme.x.{cell}", f"{tenants}.{'x' * 900}.{cell}"]
    responses = []
    for request_id in forged:
        path = f"/v1/searches/{quote(request_id, safe='')}"
        responses += [http.get(path), http.get(path, params={"wait": 0.1}), http.delete(path)]
        responses += [http.get(f"{path}/events"), http.get(f"/v1/audit/{quote(request_id, safe='')}")]
        about = {"request_id": request_id, "question": 0, "action": "click", "document_id": "d"}
        responses.append(http.post("/v1/feedback", json=[about]))
    assert {(response.status_code, response.text) for response in responses} == {(404, responses[0].text)}, (
        "one text for each id, on each route"
    )


@over(["pipelines"], DATABASES)
def test_documents_go_to_the_cell_that_takes_those_of_their_namespace(
    http: httpx.Client, cells: Cells
) -> None:
    namespaces = ("n1", "n2", "n3", "n4")
    assert len({id(cells.writer(namespace)) for namespace in namespaces}) == 2
    for namespace in namespaces:
        body = {"documents": [{"id": "bread", "text": "Bread is baked from flour."}]}
        handed_in = http.post(f"/v1/namespaces/{namespace}/documents", json=body)
        ticket = handed_in.raise_for_status().json()["ticket"]
        assert cells.writer(namespace).wait_visible(ticket, wait_s=60).added == 1
        assert http.get(handed_in.headers["location"]).json()["state"] == "done"


@pytest.mark.parametrize(("name", "loss"), [("a", "killed"), ("b", "silent")])
def test_a_lost_cell_costs_the_api_only_the_searches_of_that_cell(
    http: httpx.Client, pipelines: dict[str, RunningPipeline], name: str, loss: str
) -> None:
    (other,) = {*pipelines} - {name}
    lost = pipelines[name].server
    ids = [search(http, question).json()["request_id"] for question in QUESTIONS]
    until(lambda: all(http.get(f"/v1/audit/{request_id}").is_success for request_id in ids))
    lost.kill() if loss == "killed" else lost.pause()
    try:
        for question in QUESTIONS:
            for prefer, code in (("respond-async", 202), ("wait=30", 200)):
                response = search(http, question, prefer)
                assert (response.status_code, cell_of(response.json()["request_id"])) == (code, other)
        for request_id in ids:
            response = http.get(f"/v1/searches/{request_id}")
            assert response.status_code == {other: 200, name: 503}[cell_of(request_id)]
            assert http.get(f"/v1/audit/{request_id}").is_success
        ready = http.get("/readyz").raise_for_status().json()
        assert [part["cell"] for part in ready["missing"] if part["name"] == "redis"] == [name]
        assert "default" in {one["name"] for one in http.get("/v1/namespaces").json()["namespaces"]}
        line, kind = b'{"id": "1", "text": "Who pays?"}', {"Content-Type": "application/x-ndjson"}
        job = http.post("/v1/jobs", params={"namespace": "default"}, content=line, headers=kind)
        assert job.status_code == 201
        rules = {"synonyms": {name: {"words": ["repair", f"mending in {name}"]}}}
        assert http.put("/v1/namespaces/default/rules", json=rules).is_success
    finally:
        lost.start() if loss == "killed" else lost.resume()
    until(lambda: {cell_of(one) for one in answered_ids(http)} == {"a", "b"}, 60)


@over(["pipelines", "lost"], [["sqlite", "a"], ["postgresql", "b"]])
def test_a_job_is_sent_to_both_cells_and_outlives_one_of_them_and_its_end_is_announced(
    cells: Cells, pipelines: dict[str, RunningPipeline], lost: str
) -> None:
    (other,) = {*pipelines} - {lost}
    for cell in pipelines.values():
        cell.pause(QUEUE_BULK)
    lines = [{"id": str(number), "text": f"Who pays for repair {number}?"} for number in range(6 * 64)]
    with Hook() as hook, closing(pipelines[other].client()) as client:
        job = client.jobs.submit(lines, namespace="default", on_end={"url": hook.url})
        until(lambda: all(cell.redis.llen(QUEUE_BULK) for cell in pipelines.values()))
        pipelines[lost].server.kill()
        try:
            pipelines[other].resume(QUEUE_BULK)
            assert job.wait(120).counts["complete"] == len(lines)
            # If the first cell is lost, the second one sends the callback a while later.
            until(lambda: hook.got, 60)
        finally:
            pipelines[lost].server.start()
            pipelines[lost].resume(QUEUE_BULK)
    assert [json.loads(body)["job_id"] for _, _, body in hook.got] == [job.job_id]
    until(lambda: both_answer(cells), 60)


def test_the_command_line_and_metrics_show_every_cell_and_name_a_lost_one(
    cells: Cells, pipelines: dict[str, RunningPipeline], http: httpx.Client
) -> None:
    def called(*arguments: str) -> Called:
        return in_process(*arguments, **pipelines["a"].environment)

    def said(*arguments: str) -> tuple[int, Any]:
        answered = called(*arguments, "--json")
        return answered.returncode, json.loads(answered.stdout)

    def counts() -> tuple[int, dict[str, int]]:
        code, status = said("status")
        return code, {name: len(cell["workers"]) for name, cell in status["cells"].items()}

    def answering_cells() -> set[str]:
        return {cell_of(said("search", question)[1]["request_id"]) for question in QUESTIONS_OF_BOTH}

    def sweepers() -> list[dict[str, float]]:
        """By `/metrics` and `chorale status --prometheus`: 1 for a cell with a sweeper, 0 for one that cannot be read."""
        texts = (http.get("/metrics").raise_for_status().text, called("status", "--prometheus").stdout)
        return [
            _by_cell(text, "chorale_cell_up") | _by_cell(text, "chorale_sweeper_acting") for text in texts
        ]

    # Processes report again a while after their Redis has come back.
    until(lambda: counts() == (0, {"a": 3, "b": 3}), 60)
    until(lambda: sweepers() == [{"a": 1, "b": 1}] * 2)
    assert answering_cells() == {"a", "b"}
    for request_id in (cells.retrieve(question, timeout_s=30).request_id for question in QUESTIONS):
        assert said("cancel", request_id)[1]["request_id"] == request_id  # it had ended before
    pipelines["b"].server.kill()
    try:
        code, status = said("status")
        assert (code, len(status["cells"]["a"]["workers"])) == (1, 3)
        assert "does not answer" in status["cells"]["b"]["error"]
        assert "cell b" in called("status").stdout
        checks = {check["check"]: check["findings"] for check in said("doctor")[1]["checks"]}
        assert [finding["what"].partition(":")[0] for finding in checks["cells"]] == ["cell b"]
        assert sweepers() == [{"a": 1, "b": 0}] * 2
        assert answering_cells() == {"a"}
    finally:
        pipelines["b"].server.start()
    until(lambda: both_answer(cells), 60)


def _by_cell(metrics: str, name: str) -> dict[str, float]:
    families = text_string_to_metric_families(metrics)
    return {
        one.labels["cell"]: one.value for family in families for one in family.samples if one.name == name
    }


def test_the_mcp_server_asks_all_cells(pipelines: dict[str, RunningPipeline]) -> None:
    environment = {**os.environ, **pipelines["a"].environment, "PYTHONPATH": PYTHONPATH}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "cli", "mcp"], env=environment, cwd=str(ROOT)
    )

    async def ask() -> list[Any]:
        async with Client(server) as client:
            results = [
                await client.call_tool("search", {"query": question}) for question in QUESTIONS_OF_BOTH
            ]
        return [one.structured_content for one in results]

    ids = [result["coverage"]["request_id"] for result in asyncio.run(ask())]
    assert {cell_of(request_id) for request_id in ids} == {"a", "b"}
