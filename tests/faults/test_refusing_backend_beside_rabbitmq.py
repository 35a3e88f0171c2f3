"""With RabbitMQ as broker, a Redis that refuses for a moment ends no worker either, and loses no documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from chorale_client import ServiceUnavailable

from tests.support.faults.refusals import Refusal, full, read_only, unable_to_save
from tests.support.faults.serving import QUEUES, nobody_has_ended, serving
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.services import need
from tests.support.waiting import until

SERVED = [*QUEUES, "chorale.index"]


@pytest.fixture(scope="module")
def running() -> Iterator[RunningPipeline]:
    url = need("rabbitmq", "a Redis that refuses beside another broker is not tested")
    with own_queues(url, SERVED), serving(SERVED, environment={"CHORALE_BROKER_URL": url}) as pipeline:
        yield pipeline


@pytest.mark.slow
@pytest.mark.parametrize("refusing", [read_only, unable_to_save, full])
def test_a_redis_that_refuses_ends_no_worker(running: RunningPipeline, refusing: Refusal) -> None:
    with closing(running.client()) as client:
        tickets = [
            client.upsert("handed-in", [{"id": f"{refusing.__name__}-{number}", "text": "Bread is baked."}])
            for number in range(5)
        ]
        with refusing(running.server), pytest.raises(ServiceUnavailable, match="Redis refuses"):
            client.retrieve("bread", timeout_s=2)
        until(lambda: client.retrieve("bread", cache="bypass", timeout_s=20).status == "complete")
        nobody_has_ended(running)
        outcomes = [client.wait_visible(ticket, wait_s=60) for ticket in tickets]
        # The first attempt may have written the document; the second attempt then reports it as unchanged.
        assert [outcome.added + outcome.unchanged for outcome in outcomes] == [1] * 5
