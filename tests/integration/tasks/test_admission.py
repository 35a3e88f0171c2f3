"""Too much waits, or a worker was away, or hangs: requests end in time with what there is, or are refused at once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client import Answer
from chorale_client.message_template import Template

from ledger.breakers import FEWEST_DURATIONS
from ledger.outcomes import Outcome
from tasks.celery_surface.result_backend import part_id
from tests.support.pipelines.kinds import kinds_with
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

pytestmark = pytest.mark.slow

HESITANT_KIND = """
import time
from branches.kinds import bm25
from tests.support.pipelines.kinds import declare

def hesitant(part):
    # Whoever is first to take a request's part hangs until it is let go, which is one worker of two.
    if "hang" in part.questions[0].text:
        redis, key = part.resources.redis, "hung:" + part.request.request_id
        is_first = redis.set(key, "hangs", nx=True)
        while is_first and redis.get(key) == b"hangs":
            time.sleep(0.02)
    return bm25.search_bm25(part)

declare(hesitant=hesitant)
"""

PIPELINE = """
[stores.local]
kind = "embedded"

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"

[branches.second]
kind = "bm25"
group = "other"
store = "local"

[branches.hesitant]
kind = "hesitant"
group = "dense"
store = "local"
"""

QUEUES = ["chorale.retrieve", "chorale.bm25", "chorale.second", "chorale.hesitant", "chorale.fusion"]
SECOND = "chorale.second"
BOUND = 200


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    folder = tmp_path_factory.mktemp("busy")
    (folder / "pipeline.toml").write_text(PIPELINE)
    with (
        RedisServer() as server,
        RunningPipeline(
            server,
            queues=QUEUES,
            pipeline_file=folder / "pipeline.toml",
            kinds=kinds_with("hesitant"),
            environment={"CHORALE_ADMISSION_LENGTH": str(BOUND)},
            preload=HESITANT_KIND,
        ) as running,
    ):
        running.start("another", queue="chorale.hesitant")
        running.wait_ready(["another"])
        running.index()
        yield running


def stale_parts(busy: RunningPipeline, count: int) -> None:
    """Messages of requests that ended long ago, as nobody took them from the queue."""
    template = Template(busy.app, "chorale.search.bm25", SECOND)
    for _ in range(count // 10_000 or 1):
        messages = []
        for _ in range(min(count, 10_000)):
            ended = str(uuid.uuid4())
            kwargs = {"request_id": ended, "branch": "second"}
            messages.append(template.render(part_id(ended, "second"), kwargs, root_id=ended, group_id=ended))
        busy.redis.lpush(SECOND, *messages)


def stale_retrieves(busy: RunningPipeline, count: int) -> None:
    template = Template(busy.app, "chorale.retrieve", "chorale.retrieve")
    ended = [str(uuid.uuid4()) for _ in range(count)]
    messages = [template.render(one, {"request_id": one}, root_id=one) for one in ended]
    busy.redis.lpush("chorale.retrieve", *messages)


def ask(busy: RunningPipeline, text: str = "ERR-4711", *branches: str, **options: Any) -> Answer:
    options = {"branches": list(branches or ("bm25", "second")), "timeout_s": 20, **options}
    return busy.client().retrieve(text, cache="bypass", **options)


def wait_for(busy: RunningPipeline, field: str, *, is_there: bool = True) -> None:
    until(lambda: bool(busy.redis.hexists("chorale:overload", field)) is is_there)


def reasons(answer: Answer) -> list[tuple[str, str]]:
    return [(one.where, one.reason) for one in answer.degraded]


def test_a_branch_with_an_overlong_queue_is_left_out_until_the_queue_is_short(busy: RunningPipeline) -> None:
    # The worker drops them in a few seconds, and the sweeper looks twice, four times a second.
    stale_parts(busy, 100_000)
    wait_for(busy, f"over:{SECOND}")
    answer = ask(busy)
    assert reasons(answer) == [("search.second", "overload")]
    assert "messages wait" in answer.degraded[0].detail
    assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")

    busy.redis.delete(SECOND)
    wait_for(busy, f"over:{SECOND}", is_there=False)
    assert ask(busy).status == "complete"


def test_new_requests_are_refused_at_once_when_the_planners_queue_is_too_long(busy: RunningPipeline) -> None:
    stale_retrieves(busy, 10_000)
    wait_for(busy, "retry_after_ms")
    answer = ask(busy)
    assert (answer.status, answer.hits) == ("refused", ())
    assert answer.retry_after_s is not None
    assert 0.25 <= answer.retry_after_s <= 30

    busy.redis.delete("chorale.retrieve")
    wait_for(busy, "retry_after_ms", is_there=False)
    assert ask(busy).status == "complete"


def test_a_refusal_that_is_no_longer_justified_is_removed_by_the_sweeper(busy: RunningPipeline) -> None:
    busy.redis.hset("chorale:overload", "retry_after_ms", 500)
    wait_for(busy, "retry_after_ms", is_there=False)
    assert ask(busy).status == "complete"


def test_a_queue_without_a_worker_does_not_count_as_overloaded(busy: RunningPipeline) -> None:
    busy.kill(SECOND)
    stale_parts(busy, BOUND * 3)
    length = str(BOUND * 3).encode()
    until(lambda: busy.redis.hget("chorale:overload", f"length:{SECOND}") == length)
    assert not busy.redis.hexists("chorale:overload", f"over:{SECOND}")
    assert reasons(ask(busy, timeout_s=2)) == [("search.second", "not_started")]
    busy.start(SECOND)
    busy.wait_ready([SECOND])
    assert ask(busy).status == "complete"


def test_a_worker_that_was_away_for_an_hour_delays_no_new_request(busy: RunningPipeline) -> None:
    """Forty requests a second for an hour: their messages are still there, and nobody waits for them."""
    busy.kill(SECOND)
    stale_parts(busy, 140_000)
    assert busy.redis.llen(SECOND) == 140_000
    busy.start(SECOND)
    busy.wait_ready([SECOND])
    assert busy.redis.llen(SECOND) == 0

    answer = ask(busy)
    assert reasons(answer) == []
    assert answer.status == "complete"
    assert set(answer.hits[0].found_by) == {"bm25", "second"}


@pytest.fixture
def hanging(busy: RunningPipeline) -> Iterator[RunningPipeline]:
    """Whoever hangs does so until the test has ended."""
    yield busy
    for key in busy.redis.keys("hung:*"):
        busy.redis.set(key, "let go")
    assert ask(busy, "ERR-4711", "hesitant").status == "complete"


def test_a_hedged_part_that_hangs_is_searched_by_another_worker_and_the_answer_is_complete(
    hanging: RunningPipeline,
) -> None:
    """The second attempt goes out after the branch's own 95th percentile."""
    for ms in range(FEWEST_DURATIONS):
        hanging.resources.breakers.count("x", [Outcome("hesitant", "answered", answered_after_ms=100 + ms)])

    answer = ask(hanging, "hang ERR-4711", "bm25", "hesitant", timeout_s=20, hedge=True)
    assert (answer.status, answer.hits[0].document_id) == ("complete", "error")
    assert set(answer.hits[0].found_by) == {"bm25", "hesitant"}
    # Sent again after 118 ms instead of the half of its limit.
    assert answer.took_ms < 5_000


def test_a_branch_without_known_durations_is_hedged_after_half_of_its_limit(hanging: RunningPipeline) -> None:
    hanging.redis.delete("chorale:durations:hesitant", "chorale:durations:bm25")
    # What was known is known for a second more.
    time.sleep(1)
    answer = ask(hanging, "hang ERR-4711", "bm25", "hesitant", timeout_s=4, hedge=True)
    assert answer.status == "complete"
    assert answer.took_ms >= 2_000


def test_without_a_hedge_a_part_that_hangs_is_searched_by_another_worker_when_its_lease_is_over(
    hanging: RunningPipeline,
) -> None:
    """Nothing is known of the branch's durations, so the lease is half of its limit."""
    hanging.redis.delete("chorale:durations:hesitant")
    time.sleep(1)
    answer = ask(hanging, "hang ERR-4711", "bm25", "hesitant", timeout_s=4)
    assert answer.status == "complete"
    assert answer.took_ms >= 2_000
