"""What waits on each queue, read from real lists and from a real RabbitMQ; and what is dropped when a worker starts."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import redis
from celery import Celery
from chorale_client import Chorale, make_request
from chorale_client.ledger import CallersLedger
from kombu import Connection, Exchange, Queue

from assembly.pipeline import load_pipeline
from assembly.resources import Resources
from config.settings import Settings
from ledger.breakers import Breakers
from ledger.overload import Load, Overload
from models.envelope import Envelope
from monitoring.queues import ListedQueues, QueueState, open_queues, queue_states
from tasks.registration import make_app
from tasks.request.retrieve import submit
from tasks.sweeping.admission import Judge, QueueWatch
from tasks.worker.stale_messages import drop_ended
from tests.support.ledger.single_steps import SingleSteps
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need

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


def now_ms(client: redis.Redis) -> int:
    seconds, microseconds = client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


class TestLists:
    def test_an_empty_list_queue_has_no_age(self, redis_client: redis.Redis) -> None:
        assert queue_states(redis_client, [VECTOR]) == {VECTOR: QueueState(0)}

    def test_the_age_of_a_part_counts_from_the_plan(
        self, resources: Resources, redis_client: redis.Redis
    ) -> None:
        request_id = planned(resources)
        planned(resources)
        # As if it had been planned 30 seconds ago, and accepted long before.
        limit = int(redis_client.hget(f"chorale:request:{request_id}", "limit:vector") or 0)
        redis_client.hset(f"chorale:request:{request_id}", "limit:vector", limit - 30_000)
        redis_client.hset(f"chorale:request:{request_id}", "accepted_at", 0)

        state = queue_states(redis_client, [VECTOR])[VECTOR]
        assert state.length == 2
        assert state.age_s is not None
        assert 30 <= state.age_s < 35

    def test_the_age_of_an_unplanned_request_counts_from_its_acceptance(
        self, redis_server: RedisServer, redis_client: redis.Redis
    ) -> None:
        request_id = Chorale(redis_server.url).send("bread")
        until = time.monotonic() + 30
        while not redis_client.llen(RETRIEVE):
            assert time.monotonic() < until
        redis_client.hset(f"chorale:request:{request_id}", "accepted_at", now_ms(redis_client) - 9_000)
        state = queue_states(redis_client, [RETRIEVE])[RETRIEVE]
        assert state.age_s is not None
        assert 9 <= state.age_s < 14

    def test_the_age_of_a_callback_counts_from_the_push_to_its_queue(
        self, resources: Resources, redis_client: redis.Redis
    ) -> None:
        request_id = planned(resources)
        callback = app_of(resources).fanout.callback(request_id)
        for branch in ("bm25", "vector", "hyde"):
            SingleSteps(resources.redis).report(
                request_id, branch, Envelope(branch, "empty"), callback=callback
            )
        time.sleep(0.2)
        state = queue_states(redis_client, [FUSION])[FUSION]
        assert state.length == 1
        assert state.age_s is not None
        assert 0.15 <= state.age_s < 5

    @pytest.mark.parametrize("what", ["ended", "answered"])
    def test_a_message_of_an_ended_or_answered_part_gives_its_queue_no_age(
        self, resources: Resources, redis_client: redis.Redis, what: str
    ) -> None:
        request_id = planned(resources)
        if what == "ended":
            redis_client.delete(f"chorale:request:{request_id}")
        else:
            SingleSteps(resources.redis).report(request_id, "vector", Envelope("vector", "empty"))
        state = queue_states(redis_client, [VECTOR])[VECTOR]
        assert (state.length, state.age_s) == (1, None)

    @pytest.mark.parametrize("raw", [b"", b"no JSON", b"[]", b'{"body": 7}', b"[" * 100_000])
    def test_a_foreign_message_counts_in_the_length_and_not_in_the_age(
        self, redis_client: redis.Redis, raw: bytes
    ) -> None:
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
    def test_the_acting_sweeper_publishes_queue_lengths_with_a_short_ttl(
        self, resources: Resources, redis_client: redis.Redis
    ) -> None:
        planned(resources)
        redis_client.set("chorale:sweeper", "me")
        watch = QueueWatch(resources, "me", lambda: True)
        watch.look(ListedQueues(redis_client, [VECTOR, FUSION]), Judge(watch._bounds, branch_queues=[VECTOR]))
        loads = Breakers(redis_client, failures=5, open_s=5).look([]).loads
        assert (loads[VECTOR].length, loads[FUSION]) == (1, Load(0))
        assert 0 < redis_client.pttl("chorale:overload") <= 2_000

    def test_a_standby_sweeper_publishes_no_queue_lengths(self, redis_client: redis.Redis) -> None:
        redis_client.set("chorale:sweeper", "another")
        assert not Overload(redis_client).write("me", {VECTOR: Load(1)}, retry_after_ms=500)
        assert not redis_client.exists("chorale:overload")

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
    def messages(self, resources: Resources, *request_ids: str) -> None:
        for request_id in request_ids:
            planned(resources, request_id)

    def waiting(self, client: redis.Redis, queue: str = VECTOR) -> list[str]:
        """The requests on the queue, the oldest first."""
        found = [json.loads(raw)["headers"]["root_id"] for raw in client.lrange(queue, 0, -1)]
        return found[::-1]

    def end(self, client: redis.Redis, *request_ids: str) -> None:
        for request_id in request_ids:
            client.delete(f"chorale:request:{request_id}")

    def test_only_messages_of_ended_requests_are_dropped_and_the_others_keep_their_order(
        self, resources: Resources, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tasks.worker.stale_messages.AT_ONCE", 3)
        ids = [f"r{number}" for number in range(10)]
        self.messages(resources, *ids)
        self.end(redis_client, "r0", "r1", "r3", "r6", "r7", "r8")

        assert drop_ended(redis_client, VECTOR) == 6
        assert self.waiting(redis_client) == ["r2", "r4", "r5", "r9"]
        assert drop_ended(redis_client, VECTOR) == 0

    def test_messages_are_kept_unless_they_name_an_ended_request_of_ours(
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

    def test_dropping_is_correct_while_another_worker_takes_a_message(
        self, resources: Resources, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between the look and the drop somebody takes the oldest message."""
        from tasks.worker import stale_messages as backlog

        self.messages(resources, "r0", "r1", "r2", "r3")
        self.end(redis_client, "r0", "r2")
        looked = backlog._still_waited_for
        taken: list[object] = []

        def meanwhile(client: redis.Redis, messages: list[bytes]) -> list[bytes]:
            if not taken:
                taken.append(client.rpop(VECTOR))
            return looked(client, messages)

        monkeypatch.setattr(backlog, "_still_waited_for", meanwhile)
        assert drop_ended(redis_client, VECTOR) == 1
        assert self.waiting(redis_client) == ["r1", "r3"]

    def test_two_workers_that_drop_at_once_keep_every_message_of_a_live_request(
        self, resources: Resources, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between the look and the drop another worker drops the same; the oldest message stays where it is."""
        from tasks.worker import stale_messages as backlog

        self.messages(resources, *(f"r{number}" for number in range(8)))
        self.end(redis_client, "r1", "r2", "r3")
        monkeypatch.setattr(backlog, "AT_ONCE", 4)
        looked, nested = backlog._still_waited_for, [False]

        def meanwhile(client: redis.Redis, messages: list[bytes]) -> list[bytes]:
            if not nested[0]:
                nested[0] = True
                assert drop_ended(redis_client, VECTOR) == 3
            return looked(client, messages)

        monkeypatch.setattr(backlog, "_still_waited_for", meanwhile)
        assert drop_ended(redis_client, VECTOR) == 0
        assert self.waiting(redis_client) == ["r0", "r4", "r5", "r6", "r7"]

    def test_dropping_stops_after_too_many_messages_of_live_requests(
        self, resources: Resources, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tasks.worker.stale_messages.AT_ONCE", 2)
        monkeypatch.setattr("tasks.worker.stale_messages.MOST_KEPT", 4)
        self.messages(resources, "r0", "r1", "r2", "r3", "r4")
        self.end(redis_client, "r4")
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
        until = time.monotonic() + 30
        while queue.queue_declare(passive=True).message_count == 0:
            assert time.monotonic() < until
            time.sleep(0.01)

    def test_a_rabbitmq_queue_reports_its_length_and_its_consumers(
        self, amqp_url: str, queue: Queue, redis_client: redis.Redis
    ) -> None:
        asked = [queue.name, "chorale.nobody.declared"]
        empty = queue_states(redis_client, asked, broker_url=amqp_url)
        assert empty == {queue.name: QueueState(0, None, 0), "chorale.nobody.declared": QueueState(None)}
        self.publish(queue, 3)
        found = queue_states(redis_client, [queue.name], broker_url=amqp_url)[queue.name]
        assert (found.length, found.workers) == (3, 0)
        with Connection(amqp_url) as other:
            channel = other.channel()
            channel.basic_qos(0, 1, False)
            bound = queue(channel)
            bound.consume(callback=lambda _: None)
            found = queue_states(redis_client, [queue.name], broker_url=amqp_url)[queue.name]
            assert found.workers == 1

    def test_the_age_of_a_rabbitmq_queue_counts_since_it_last_shrank_or_was_empty(
        self, amqp_url: str, queue: Queue, redis_client: redis.Redis
    ) -> None:
        looking = open_queues(redis_client, [queue.name], broker_url=amqp_url)
        assert looking.states()[queue.name].age_s is None
        self.publish(queue, 2)
        looking.states()
        time.sleep(0.2)
        growing = looking.states()[queue.name]
        assert growing.age_s is not None
        assert growing.age_s >= 0.2
        queue.get(no_ack=True)
        until = time.monotonic() + 30
        while (shrunk := looking.states()[queue.name]).length != 1:
            assert time.monotonic() < until
        assert shrunk.age_s is not None
        assert shrunk.age_s < growing.age_s
        looking.close()

    def test_reading_the_queues_of_an_absent_broker_raises_at_once(self, redis_client: redis.Redis) -> None:
        looking = open_queues(redis_client, [VECTOR], broker_url="amqp://guest:guest@127.0.0.1:1//")
        with pytest.raises(OSError, match="refused"):
            looking.states()
        looking.close()
