"""Applications whose Celery settings a worker cannot read have an answer that says so, and no line of the log has a question."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu.serialization import register

from tests.support.pipelines.pipeline import RunningPipeline, logging_to
from tests.support.servers.redis_server import RedisServer, free_port

QUESTION = "Who pays for the secret repairs?"

register("spoken", repr, eval, "application/x-spoken", "utf-8")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "log"


@pytest.fixture(scope="module")
def worker(log: Path) -> Iterator[RunningPipeline]:
    """Yields a pipeline with one worker, which only plans."""
    with (
        RedisServer(port=free_port()) as server,
        RunningPipeline(server, queues=["chorale.retrieve"], preload=logging_to(log)) as running,
    ):
        yield running


@pytest.fixture
def application(worker: RunningPipeline) -> Iterator[Celery]:
    url = worker.server.tcp_url
    with Celery("shop", broker=url, backend=url, set_as_current=False) as app:
        app.conf.task_routes = {"chorale.retrieve": {"queue": "chorale.retrieve"}}
        yield app


READ_ELSEWHERE = {
    "yaml": (
        {"task_serializer": "yaml"},
        "message: Refusing to deserialize untrusted content of type yaml (application/x-yaml); only JSON is read: set "
        "task_serializer to 'json'",
    ),
    "pickle": (
        {"task_serializer": "pickle"},
        "message: Refusing to deserialize untrusted content of type pickle (application/x-python-serialize); only JSON is "
        "read: set task_serializer to 'json'",
    ),
    "a serializer of the application's own": (
        {"task_serializer": "spoken"},
        "message: Refusing to deserialize untrusted content of type application/x-spoken (application/x-spoken); only JSON "
        "is read: set task_serializer to 'json'",
    ),
    "protocol 1": (
        {"task_protocol": 1},
        "message: is not of Celery's protocol 2: set task_protocol to 2",
    ),
}


@pytest.mark.parametrize(("settings", "said"), READ_ELSEWHERE.values(), ids=READ_ELSEWHERE)
def test_a_message_that_is_not_read_has_an_answer_that_names_the_setting(
    application: Celery, log: Path, settings: dict[str, Any], said: str
) -> None:
    application.conf.update(settings)
    answer = application.send_task("chorale.retrieve", args=[QUESTION]).get(timeout=30)

    assert (answer["status"], answer["degraded"][0]["detail"]) == ("failed", said)
    assert answer["request_id"]
    assert "secret" not in log.read_text()


BROKEN: dict[str, dict[str, Any]] = {
    "a moment that is none": {"eta": "yesterday"},
    "a compression that this worker lacks": {"compression": "application/x-spoken"},
}


@pytest.mark.parametrize("headers", BROKEN.values(), ids=BROKEN)
def test_a_broken_message_with_an_id_has_a_failed_answer(
    application: Celery, log: Path, headers: dict[str, Any]
) -> None:
    task_id = str(uuid.uuid4())
    with application.producer_pool.acquire() as producer:
        producer.publish(
            [[QUESTION], {}, {}],
            exchange="",
            routing_key="chorale.retrieve",
            headers={"task": "chorale.retrieve", "id": task_id, "kwargsrepr": QUESTION, **headers},
        )
    answer = application.AsyncResult(task_id).get(timeout=30)

    assert answer["status"] == "failed"
    assert answer["degraded"][0]["detail"].startswith("message: ")
    assert "secret" not in log.read_text()


@pytest.mark.parametrize(
    "body", [[QUESTION], [[], QUESTION, {}], [QUESTION, {}, {}], {"kwargs": QUESTION}], ids=str
)
def test_a_body_of_another_shape_has_a_failed_answer(application: Celery, log: Path, body: Any) -> None:
    task_id = str(uuid.uuid4())
    with application.producer_pool.acquire() as producer:
        headers = {"task": "chorale.retrieve", "id": task_id}
        producer.publish(body, exchange="", routing_key="chorale.retrieve", headers=headers)

    assert application.AsyncResult(task_id).get(timeout=30)["status"] == "failed"
    assert "secret" not in log.read_text()
