"""While too many messages wait, requests leave a branch out, or new requests are refused at once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from chorale_client.keys import OVERLOAD, SWEEPER
from chorale_client.wire_names import QUEUE_RETRIEVE

from ledger.breakers import ALL_WELL_FOR_S
from monitoring.queues import ListedQueues
from tasks.celery_internals.message_template import Template
from tasks.celery_internals.result_backend import part_id
from tasks.sweeping.admission import Bounds, Judge, QueueWatch
from tasks.worker.warming import warm
from tests.integration.tasks.answers import ids, reasons
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import LOCAL, branch

SECOND = "chorale.second"
BOUND = 200


class Busy(OneProcess):
    """The branches `bm25` and `second`, and a sweeper that looks at the queues when the test has it look."""

    def begin(self) -> None:
        """No message waits."""
        self.redis.delete(*self.resources.pipeline.request_queues, OVERLOAD)
        self.redis.set(SWEEPER, "sweeper")  # it acts
        self.watch = QueueWatch(self.resources, "sweeper", lambda: True)
        self.queues = ListedQueues(self.redis, self.resources.pipeline.request_queues)
        self.judge = Judge(Bounds(BOUND, 0), branch_queues=["chorale.bm25", SECOND])

    def tick(self) -> None:
        self.watch.report(self.queues, self.judge)

    def fill(self, queue: str) -> None:
        """With messages of requests that have ended, which a worker takes one after the other."""
        is_part = queue == SECOND
        template = Template(self.app, "chorale.search.bm25" if is_part else "chorale.retrieve", queue)
        for _ in range(2 * BOUND):
            ended = str(uuid.uuid4())
            kwargs = {"request_id": ended, **({"branch": "second"} if is_part else {})}
            own_id = part_id(ended, "second") if is_part else ended
            self.redis.lpush(queue, template.render(own_id, kwargs, root_id=ended, group_id=ended))

    def overload(self, queue: str) -> None:
        self.fill(queue)
        for _ in range(3):
            self.tick()
            self.redis.rpop(queue)
        # What a sweeper has said expires, however busy the machine is; the next look replaces it.
        self.redis.persist(OVERLOAD)
        # The planner may have found all well just before.
        time.sleep(ALL_WELL_FOR_S)


@pytest.fixture(scope="module")
def pipeline() -> Iterator[Busy]:
    branches = branch("bm25") + branch("second", "other", kind="bm25")
    with Busy.with_file(LOCAL + branches) as running:
        running.index()
        yield running


@pytest.fixture
def busy(pipeline: Busy) -> Busy:
    pipeline.begin()
    return pipeline


def test_a_branch_with_an_overlong_queue_is_left_out_until_the_queue_is_short(busy: Busy) -> None:
    busy.overload(SECOND)
    answer = busy.ask("ERR-4711", cache="bypass")
    assert reasons(answer) == [("search.second", "overload")]
    assert "messages wait" in answer.degraded[0].detail
    assert (answer.status, ids(answer)[0]) == ("degraded", "error")

    busy.redis.delete(SECOND)
    busy.tick()
    assert busy.ask("ERR-4711", cache="bypass").status == "complete"


def test_new_requests_are_refused_at_once_when_the_planners_queue_is_too_long(busy: Busy) -> None:
    busy.overload(QUEUE_RETRIEVE)
    answer = busy.client().retrieve("ERR-4711", timeout_s=20)
    assert (answer.status, answer.hits) == ("refused", ())
    assert answer.retry_after_s is not None
    assert 0.25 <= answer.retry_after_s <= 30

    busy.redis.delete(QUEUE_RETRIEVE)
    busy.tick()
    assert busy.ask("ERR-4711", cache="bypass").status == "complete"


def test_messages_of_requests_that_have_ended_delay_no_new_request(busy: Busy) -> None:
    """The state after a worker was away for an hour."""
    busy.fill(SECOND)
    answer = busy.ask("ERR-4711", cache="bypass")
    assert (answer.status, set(answer.hits[0].found_by)) == ("complete", {"bm25", "second"})
    assert busy.redis.llen(SECOND) == 0
    busy.fill(SECOND)
    warm(busy.app, [SECOND])
    assert busy.redis.llen(SECOND) == 0, "a worker that starts drops them all at once"
