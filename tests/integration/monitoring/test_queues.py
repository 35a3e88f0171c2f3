"""What waits on each queue, read from real lists and from a real RabbitMQ; and what is dropped when a worker starts."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest
import redis
from celery import Celery
from chorale_client import Chorale, make_request
from chorale_client.ledger import CallersLedger
from kombu import Connection, Exchange, Queue

from config.settings import Settings
from ledger import backlog
from ledger.backlog import Load, Overload
from ledger.breakers import Breakers
from models.branch_result import BranchResult
from monitoring.queues import ListedQueues, QueueState, open_queues, queue_states
from tasks.registration import make_app
from tasks.request.retrieve import submit
from tasks.sweeping.admission import Judge, QueueWatch
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tasks.worker import warming
from tasks.worker.warming import drop_ended
from tests.support.ledger.single_steps import SingleSteps
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.waiting import until

VECTOR, FUSION, RETRIEVE = "chorale.vector", "chorale.fusion", "chorale.retrieve"


@pytest.fixture
def resources(redis_server: RedisServer, redis_client: redis.Redis) -> Resources:
    return Resources(Settings(embedder="none"), load_pipeline(), redis_server.url)


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resources, "fingerprints", {"embedder": "none"})


def planned(resources: Resources, request_id: str = "", *, timeout_s: float = 60) -> str:
    """A request whose parts wait on their queues, where nobody takes them."""
    options: dict[str, Any] = {"request_id": request_id} if request_id else {}
    request = make_request("bread", cache="bypass", timeout_s=timeout_s, **options)
    return submit(resources, app_of(resources).fanout, request)


@cache
def app_of(resources: Resources) -> Celery:
    return make_app(resources)


class TestLists:
    def test_the_age_of_a_part_counts_from_the_plan(
        self, resources: Resources, redis_client: redis.Redis
    ) -> None:
        request_id = planned(resources)
        planned(resources)
        # As if it had been planned 30 seconds ago, and accepted long before.
        entry = f"chorale:request:{request_id}"
        limit = int(redis_client.hget(entry, "limit:vector") or 0)
        redis_client.hset(entry, mapping={"limit:vector": limit - 30_000, "accepted_at": 0})
        length, age_s = self.tick(redis_client, VECTOR)
        assert length == 2
        assert 30 <= age_s < 90

    def tick(self, client: redis.Redis, queue: str) -> tuple[int | None, float]:
        state = queue_states(client, [queue])[queue]
        assert state.age_s is not None
        return state.length, state.age_s

    def test_the_age_of_an_unplanned_request_counts_from_its_acceptance(
        self, redis_server: RedisServer, redis_client: redis.Redis
    ) -> None:
        request_id = Chorale(redis_server.url).send("bread")
        until(lambda: redis_client.llen(RETRIEVE))
        accepted_at_ms = 1_000 * (int(redis_client.time()[0]) - 9)
        redis_client.hset(f"chorale:request:{request_id}", "accepted_at", accepted_at_ms)
        _, age_s = self.tick(redis_client, RETRIEVE)
        assert 9 <= age_s < 90

    def test_the_age_of_a_callback_counts_from_its_push(
        self, resources: Resources, redis_client: redis.Redis
    ) -> None:
        request_id = planned(resources)
        callback = app_of(resources).fanout.callback(request_id)
        for branch in ("bm25", "vector", "hyde"):
            empty = BranchResult(branch, "empty")
            SingleSteps(resources.redis).report(request_id, branch, empty, callback=callback)
        time.sleep(0.2)
        length, age_s = self.tick(redis_client, FUSION)
        assert length == 1
        assert 0.15 <= age_s < 90

    @pytest.mark.parametrize("what", ["ended", "answered"])
    def test_a_message_of_an_ended_or_answered_part_gives_its_queue_no_age(
        self, resources: Resources, redis_client: redis.Redis, what: str
    ) -> None:
        request_id = planned(resources)
        if what == "ended":
            redis_client.delete(f"chorale:request:{request_id}")
        else:
            SingleSteps(resources.redis).report(request_id, "vector", BranchResult("vector", "empty"))
        state = queue_states(redis_client, [VECTOR])[VECTOR]
        assert (state.length, state.age_s) == (1, None)

    @pytest.mark.parametrize("raw", [b"", b"no JSON", b"[]", b'{"body": 7}', b"[" * 100_000])
    def test_a_foreign_message_counts_but_has_no_age(self, redis_client: redis.Redis, raw: bytes) -> None:
        assert queue_states(redis_client, [VECTOR]) == {VECTOR: QueueState(0)}
        redis_client.lpush(VECTOR, raw)
        assert queue_states(redis_client, [VECTOR]) == {VECTOR: QueueState(1)}

    def test_the_states_of_empty_queues_need_one_script_call(self, redis_client: redis.Redis) -> None:
        queues = ListedQueues(redis_client, [RETRIEVE, VECTOR, FUSION])
        queues.states()
        redis_client.config_resetstat()
        queues.states()
        seen = {name for name in redis_client.info("commandstats") if not name.startswith("cmdstat_config")}
        assert seen == {"cmdstat_evalsha", "cmdstat_llen", "cmdstat_lindex", "cmdstat_time"}
        assert redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] == 1


class TestWatching:
    @pytest.fixture(autouse=True)
    def _published_for_a_minute(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A busy machine may stand still for longer than what a sweeper publishes is kept."""
        assert backlog.EXPIRES_MS == 2_000
        monkeypatch.setattr(backlog, "EXPIRES_MS", 60_000)

    def test_the_acting_sweeper_alone_publishes_lengths(
        self, resources: Resources, redis_client: redis.Redis
    ) -> None:
        planned(resources)
        redis_client.set("chorale:sweeper", "another")
        assert not Overload(redis_client).write("me", {VECTOR: Load(1)}, retry_after_ms=500)
        assert not redis_client.exists("chorale:overload")
        redis_client.set("chorale:sweeper", "me")
        watch = QueueWatch(resources, "me", lambda: True)
        watch.report(
            ListedQueues(redis_client, [VECTOR, FUSION]), Judge(watch._bounds, branch_queues=[VECTOR])
        )
        loads = Breakers(redis_client, failures=5, open_s=5).read([]).loads
        assert (loads[VECTOR].length, loads[FUSION]) == (1, Load(0))
        assert 0 < redis_client.pttl("chorale:overload") <= 60_000

    def test_a_refusal_ends_with_the_next_look_at_a_short_queue(self, redis_client: redis.Redis) -> None:
        redis_client.set("chorale:sweeper", "me")
        overload = Overload(redis_client)
        assert overload.write("me", {VECTOR: Load(500, 1_500, "length")}, retry_after_ms=500)
        assert redis_client.hget("chorale:overload", "retry_after_ms") == b"500"
        assert CallersLedger(redis_client).accept(make_request("bread")).state == "refused"
        assert overload.write("me", {VECTOR: Load(0)}, retry_after_ms=None)
        assert redis_client.hgetall("chorale:overload") == {b"length:chorale.vector": b"0"}
        assert CallersLedger(redis_client).accept(make_request("bread")).is_new


class TestBacklog:
    def wait(self, resources: Resources, count: int, *, ended: Sequence[int]) -> None:
        """Messages of the requests r0, r1, … wait; some of the requests have ended."""
        for number in range(count):
            planned(resources, f"r{number}")
        for number in ended:
            resources.redis.delete(f"chorale:request:r{number}")

    def waiting(self, client: redis.Redis) -> list[str]:
        """The requests on the queue, the oldest first."""
        messages = client.lrange(VECTOR, 0, -1)
        return [json.loads(raw)["headers"]["root_id"] for raw in reversed(messages)]

    def test_only_messages_of_ended_requests_are_dropped_and_the_others_keep_their_order(
        self, resources: Resources, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(warming, "AT_ONCE", 3)
        self.wait(resources, 10, ended=[0, 1, 3, 6, 7, 8])
        assert drop_ended(redis_client, VECTOR) == 6
        assert self.waiting(redis_client) == ["r2", "r4", "r5", "r9"]
        assert drop_ended(redis_client, VECTOR) == 0

    def test_messages_of_no_ended_request_of_ours_are_kept(
        self, resources: Resources, redis_client: redis.Redis
    ) -> None:
        app = app_of(resources)
        app.send_task("chorale.retrieve", kwargs={"request": {"questions": ["bread"]}}, queue=RETRIEVE)
        app.send_task("chorale.retrieve", args=[str(uuid.uuid4())], queue=RETRIEVE)
        app.send_task("chorale.retrieve", kwargs={"request_id": "ended"}, queue=RETRIEVE)
        app.send_task("somebody.else", kwargs={"request_id": "ended"}, queue=RETRIEVE)
        redis_client.lpush(RETRIEVE, b"no JSON at all")
        assert drop_ended(redis_client, RETRIEVE) == 1
        assert redis_client.llen(RETRIEVE) == 4

    @pytest.mark.parametrize("other", ["takes the oldest message", "drops the same"])
    def test_dropping_is_correct_while_another_worker_takes_or_drops_messages(
        self, resources: Resources, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, other: str
    ) -> None:
        """Messages change between the look and the drop.  The oldest message stays where it is if its request is live."""
        is_taking = other == "takes the oldest message"
        self.wait(resources, 8, ended=[0, 2] if is_taking else [1, 2, 3])
        monkeypatch.setattr(warming, "AT_ONCE", 4)
        still_waited_for, others = warming._still_waited_for, iter([True])

        def meanwhile(client: redis.Redis, messages: list[bytes]) -> list[bytes]:
            if next(others, False):
                assert redis_client.rpop(VECTOR) if is_taking else drop_ended(redis_client, VECTOR) == 3
            return still_waited_for(client, messages)

        monkeypatch.setattr(warming, "_still_waited_for", meanwhile)
        assert drop_ended(redis_client, VECTOR) == (1 if is_taking else 0)
        live = [1, 3, 4, 5, 6, 7] if is_taking else [0, 4, 5, 6, 7]
        assert self.waiting(redis_client) == [f"r{number}" for number in live]

    def test_dropping_stops_after_too_many_messages_of_live_requests(
        self, resources: Resources, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(warming, "AT_ONCE", 2)
        monkeypatch.setattr(warming, "MOST_RETAINED", 4)
        self.wait(resources, 5, ended=[4])
        assert drop_ended(redis_client, VECTOR) == 0


@pytest.fixture(scope="module")
def amqp_url() -> str:
    return need("rabbitmq", "the queues of a RabbitMQ broker cannot be read")


class TestRabbitMQ:
    @pytest.fixture
    def queue(self, amqp_url: str) -> Iterator[Queue]:
        with Connection(amqp_url) as connection:
            name = f"chorale.test.{uuid.uuid4().hex[:8]}"
            queue = Queue(name, Exchange(name, type="direct"), routing_key=name, durable=False)(connection)
            queue.declare()
            yield queue
            queue.delete()

    def publish(self, queue: Queue, count: int = 1) -> None:
        with queue.channel.connection.client.Producer() as producer:
            for _ in range(count):
                producer.publish({}, exchange=queue.exchange, routing_key=queue.name)
        until(lambda: queue.queue_declare(passive=True).message_count == count)

    def test_a_rabbitmq_queue_reports_its_length_and_its_consumers(
        self, amqp_url: str, queue: Queue, redis_client: redis.Redis
    ) -> None:
        def states(*names: str) -> dict[str, QueueState]:
            return dict(queue_states(redis_client, names, broker_url=amqp_url))

        absent = "chorale.nobody.declared"
        assert states(queue.name, absent) == {queue.name: QueueState(0, None, 0), absent: QueueState(None)}
        self.publish(queue, 3)
        state = states(queue.name)[queue.name]
        assert (state.length, state.workers) == (3, 0)
        with Connection(amqp_url) as other:
            channel = other.channel()
            channel.basic_qos(0, 1, False)
            queue(channel).consume(callback=lambda _: None)
            assert states(queue.name)[queue.name].workers == 1

    def test_the_age_of_a_rabbitmq_queue_counts_since_it_last_shrank_or_was_empty(
        self, amqp_url: str, queue: Queue, redis_client: redis.Redis
    ) -> None:
        looking = open_queues(redis_client, [queue.name], broker_url=amqp_url)
        assert looking.states()[queue.name].age_s is None
        self.publish(queue, 2)
        looking.states()
        time.sleep(0.2)
        growing_s = looking.states()[queue.name].age_s or 0
        assert growing_s >= 0.2
        queue.get(no_ack=True)
        shrunk = until(lambda: state if (state := looking.states()[queue.name]).length == 1 else None)
        assert shrunk is not None
        assert (shrunk.age_s or 0) < growing_s
        looking.close()
