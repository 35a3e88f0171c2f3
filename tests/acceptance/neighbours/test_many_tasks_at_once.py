"""The two ways to have many questions answered that are sent at once: a queue without limits of admission, and a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from celery import Celery
from chorale_client.wire_names import QUEUE_BULK, QUEUE_RETRIEVE

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer, free_port

pytestmark = pytest.mark.slow

COUNT = 100
LONGEST_S = 60
"""The longest `timeout_s` that a request may have."""
LENGTH, AGE_S = "CHORALE_ADMISSION_LENGTH", "CHORALE_ADMISSION_AGE_S"


@contextmanager
def pipeline(environment: Mapping[str, str], *alone: str) -> Iterator[RunningPipeline]:
    with (
        RedisServer(port=free_port()) as server,
        RunningPipeline(server, alone=alone, sweeper=True, environment=environment) as running,
    ):
        running.index()
        yield running


def test_without_the_limits_of_admission_each_of_many_tasks_is_answered() -> None:
    with pipeline({LENGTH: "0", AGE_S: "0"}) as running:
        address = running.server.tcp_url
        with Celery("shop", broker=address, backend=address, set_as_current=False) as app:
            results = [
                app.send_task(
                    "chorale.retrieve",
                    args=[{"questions": [f"Who pays for repair {number}?"], "timeout_s": LONGEST_S}],
                    queue=QUEUE_RETRIEVE,
                )
                for number in range(COUNT)
            ]
            statuses = Counter(one.get(timeout=2 * LONGEST_S)["status"] for one in results)
    assert statuses == {"complete": COUNT}


def test_a_job_of_many_questions_answers_each_in_spite_of_short_limits() -> None:
    with pipeline({LENGTH: "20", AGE_S: "0.1"}, QUEUE_BULK) as running:
        questions = [{"id": str(number), "text": f"Who pays for repair {number}?"} for number in range(COUNT)]
        job = running.client().jobs.submit(questions, namespace="default")
        assert Counter(line["status"] for line in job.results(wait=True)) == {"complete": COUNT}
