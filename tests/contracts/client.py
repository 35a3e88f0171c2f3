"""The promises of the clients, synchronous and asynchronous, on a real Redis without workers.

A subclass provides the fixture `new_client`.
"""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any, cast

import pytest
from celery import Celery
from chorale_client import (
    Chorale,
    InvalidRequest,
    NotEnded,
    RequestIdConflict,
    ServiceUnavailable,
    Status,
    UnknownRequest,
    make_request,
)
from chorale_client.default_timeout import publish_timeouts
from chorale_client.keys import INDEXED, NOT_DONE, OUTBOX, OVERLOAD, result_key
from chorale_client.wire_names import QUEUE_INDEX, QUEUE_RETRIEVE
from kombu import Queue
from redis import Redis

from tests.support.ledger.requests import BODY, ok, plan
from tests.support.ledger.single_steps import SingleSteps
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.waiting import until

BODY_WITH_STAGES = json.dumps(
    {
        "status": "degraded",
        "degraded": [{"where": "search.vector", "reason": "timeout"}],
        "stages": [{"stage": "search.bm25", "n_out": 3}, {"stage": "fuse"}],
    }
)
NewClient = Callable[..., Chorale]

WRITTEN_BY_OTHERS: dict[str, tuple[Callable[[Any, str], object], Status]] = {
    "revoked by Celery": (lambda backend, one: backend.mark_as_revoked(one), Status.CANCELLED),
    "failed for Celery": (lambda backend, one: backend.mark_as_failure(one, ValueError("no")), Status.FAILED),
    "another result": (lambda backend, one: backend.mark_as_done(one, 7), Status.FAILED),
    "no JSON": (lambda backend, one: backend.client.set(result_key(one), b"\x80\x04."), Status.FAILED),
    "no document": (lambda backend, one: backend.client.set(result_key(one), b"[1]"), Status.FAILED),
}
"""How an application ends a request by Celery's own means or others, and the status of its answer."""


def branch_ended(name: str, status: str) -> dict[str, str]:
    return {"stage": "branch", "branch": name, "status": status}


class ClientContract:
    @pytest.fixture
    def client(self, new_client: NewClient, redis_server: RedisServer, redis_client: Redis) -> Chorale:
        return new_client(redis_server.url)

    @pytest.fixture
    def service(self, redis_client: Redis) -> SingleSteps:
        return SingleSteps(redis_client)

    @staticmethod
    def end(service: SingleSteps, request_id: str) -> None:
        service.finish(request_id, by="fusion", body=BODY, is_complete=True)

    @staticmethod
    def once_accepted(redis_client: Redis, act: Callable[[], object]) -> threading.Thread:
        """Runs `act` in a thread as soon as a request has been accepted."""
        acting = threading.Thread(target=lambda: until(lambda: redis_client.llen(QUEUE_RETRIEVE)) and act())
        acting.start()
        return acting


class AskingContract(ClientContract):
    def test_a_waiting_caller_gets_what_ended_the_request(
        self, client: Chorale, redis_client: Redis, service: SingleSteps
    ) -> None:
        request = make_request("bread", timeout_s=30)
        serving = self.once_accepted(redis_client, lambda: self.end(service, request.request_id))
        answer = client.ask(request)
        serving.join()
        assert (answer.request_id, answer.status) == (request.request_id, "complete")

    def test_the_planners_message_goes_with_the_acceptance(
        self, client: Chorale, redis_client: Redis
    ) -> None:
        handle = client.submit("bread")
        (text,) = cast("list[bytes]", redis_client.lrange(QUEUE_RETRIEVE, 0, -1))
        message = json.loads(text)
        assert message["headers"]["task"] == "chorale.retrieve"
        assert json.loads(b64decode(message["body"]))[1] == {"request_id": handle.id}
        client.submit_request(make_request("bread", request_id=handle.id))
        assert redis_client.llen(QUEUE_RETRIEVE) == 1, "a known request is not planned again"

    def test_an_empty_broker_of_the_environment_is_none(
        self,
        new_client: NewClient,
        redis_server: RedisServer,
        redis_client: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("CHORALE_BROKER_URL", "")
        new_client(redis_server.url).submit("bread")
        assert redis_client.llen(QUEUE_RETRIEVE) == 1, "the message goes with the acceptance"

    def test_another_broker_gets_the_message_too(
        self, new_client: NewClient, redis_server: RedisServer, redis_client: Redis
    ) -> None:
        other = redis_server.url.replace("db=0", "db=1")
        new_client(redis_server.url, broker_url=other).submit("bread")
        with Redis(unix_socket_path=str(redis_server.socket_path), db=1) as broker:
            until(lambda: broker.llen(QUEUE_RETRIEVE) == 1)
        rabbitmq = need("rabbitmq", "whether a client's message reaches RabbitMQ is not tested")
        with own_queues(rabbitmq, [QUEUE_RETRIEVE]) as connection:
            queue = Queue(QUEUE_RETRIEVE, channel=connection.default_channel)
            queue.declare()
            handle = new_client(redis_server.url, broker_url=rabbitmq).submit("bread")
            message = until(lambda: queue.get(no_ack=True))
            assert message.payload[1] == {"request_id": handle.id}
        assert redis_client.llen(QUEUE_RETRIEVE) == 0

    def test_the_broker_of_the_environment_gets_every_message_and_redis_none(
        self,
        new_client: NewClient,
        redis_server: RedisServer,
        redis_client: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        rabbitmq = need("rabbitmq", "whether a client finds it in the environment is not tested")
        monkeypatch.setenv("CHORALE_BROKER_URL", rabbitmq)
        with own_queues(rabbitmq, [QUEUE_RETRIEVE, QUEUE_INDEX]) as connection:
            channel = connection.default_channel
            queues = [Queue(name, channel=channel) for name in (QUEUE_RETRIEVE, QUEUE_INDEX)]
            for queue in queues:
                queue.declare()
            client = new_client(redis_server.url)
            client.submit("bread")
            client.upsert("docs", [{"id": "tea", "title": "Tea", "text": "Green tea."}])
            for queue in queues:
                assert until(partial(queue.get, no_ack=True))
        assert [name for name in redis_client.keys("*") if redis_client.type(name) == b"list"] == []

    def test_a_refusal_comes_at_once_and_the_request_sent_again_gets_its_own_end(
        self, client: Chorale, redis_client: Redis
    ) -> None:
        redis_client.hset(OVERLOAD, "retry_after_ms", 1_500)
        request = make_request("bread", timeout_s=0.1)
        handle = client.submit_request(request)
        assert handle.state == "ended"
        answer = handle.answer(0)
        assert (answer.status, answer.retry_after_s) == (Status.REFUSED, 1.5)
        assert [event.to_wire() for event in handle.events()] == [{"stage": "ended", "status": "refused"}]
        again = client.ask(request)
        assert (again.status, again.retry_after_s) == (Status.REFUSED, 1.5)
        nothing_enqueued = {OUTBOX, OVERLOAD, result_key(handle.id)}
        assert set(redis_client.keys("*")) == {key.encode() for key in nothing_enqueued}
        redis_client.delete(OVERLOAD)
        # Nobody serves, so the caller ends the request; its first end was announced, too.
        answer = client.ask(request)
        assert answer.status == Status.FAILED
        assert [(one.where, one.reason) for one in answer.degraded] == [("plan", "not_started")]

    def test_a_wrong_request_and_an_id_of_another_one_are_refused_and_not_sent(
        self, client: Chorale, redis_client: Redis
    ) -> None:
        for asking in (client.retrieve, client.submit):
            with pytest.raises(InvalidRequest, match="top_k"):
                asking("bread", top_k=0)
        assert redis_client.keys("*") == []
        client.submit("bread", request_id="one")
        for asking in (client.retrieve, client.submit):
            with pytest.raises(RequestIdConflict):
                asking("salt", request_id="one")

    def test_without_a_server_the_service_is_unavailable(self, new_client: NewClient) -> None:
        nobody = new_client("redis://127.0.0.1:9/0")
        for asking in (nobody.retrieve, nobody.submit, nobody.answer, nobody.cancel, nobody.wait_visible):
            with pytest.raises(ServiceUnavailable, match="Redis does not answer"):
                asking("bread")

    def test_a_server_that_has_forgotten_the_scripts_gets_them_again(
        self, client: Chorale, redis_client: Redis
    ) -> None:
        first = client.submit("bread")
        redis_client.script_flush()
        assert client.submit("salt").state == "new"
        redis_client.script_flush()
        assert first.cancel().status == Status.CANCELLED

    def test_the_time_limit_is_the_one_that_the_workers_published(
        self, client: Chorale, redis_client: Redis
    ) -> None:
        publish_timeouts(redis_client, {"": 7.0})
        accepted = client.submit("bread").accepted
        assert accepted is not None
        assert accepted.deadline_ms - accepted.accepted_at_ms == 7_000


class HandleContract(ClientContract):
    def test_a_handle_says_whether_its_request_is_new(self, client: Chorale, service: SingleSteps) -> None:
        request = make_request("bread")
        assert client.submit_request(request).state == "new"
        assert client.submit_request(request).state == "known"
        self.end(service, request.request_id)
        assert client.submit_request(request).state == "ended"
        assert client.handle(request.request_id).state is None

    def test_the_answer_of_a_handle_is_that_of_its_request(
        self, client: Chorale, service: SingleSteps
    ) -> None:
        handle = client.submit("bread")
        with pytest.raises(NotEnded, match=f"^{handle.id} is accepted; ask again$"):
            handle.answer(0)
        with pytest.raises(NotEnded):
            handle.answer(0.05)
        ending = threading.Timer(0.1, self.end, [service, handle.id])
        ending.start()
        assert handle.answer().status == client.handle(handle.id).answer(0).status == "complete"
        ending.join()

    def test_a_cancelled_request_answers_those_who_wait(self, client: Chorale, redis_client: Redis) -> None:
        request = make_request(["bread", "salt"], timeout_s=30)
        cancelling = self.once_accepted(redis_client, client.handle(request.request_id).cancel)
        answer = client.ask(request)
        cancelling.join()
        assert [answer.status, *(one.status for one in answer.questions)] == [Status.CANCELLED] * 3
        assert client.handle(request.request_id).cancel() == answer

    def test_an_unknown_id_is_an_error(self, client: Chorale) -> None:
        handle = client.handle("never-sent")
        for asking in (lambda: handle.answer(0), handle.cancel, lambda: list(handle.events())):
            with pytest.raises(UnknownRequest, match="'never-sent' not found"):
                asking()

    @pytest.mark.parametrize(("write", "status"), WRITTEN_BY_OTHERS.values(), ids=WRITTEN_BY_OTHERS)
    def test_an_end_that_another_program_wrote_is_an_answer_too(
        self,
        client: Chorale,
        redis_server: RedisServer,
        redis_client: Redis,
        write: Callable[[Any, str], object],
        status: Status,
    ) -> None:
        request = make_request("bread", timeout_s=0.1)
        with closing(Celery("shop", backend=redis_server.celery_url, set_as_current=False)) as app:
            app.conf.result_expires = None  # with it Celery calls what redis-py deprecates
            write(app.backend, request.request_id)
        handle = client.handle(request.request_id)
        answer = handle.answer(0)
        assert (answer.request_id, answer.status, answer.hits) == (request.request_id, status, ())
        assert len(answer.degraded) == 1
        assert handle.answer(1) == handle.cancel() == list(handle.events())[-1].answer == answer
        with suppress(RequestIdConflict):
            assert client.ask(request).status != "complete"


class EventsContract(ClientContract):
    def test_events_tell_each_step_until_the_end(self, client: Chorale, service: SingleSteps) -> None:
        handle = client.submit("bread", timeout_s=30)
        events = handle.events()
        request = make_request("bread", request_id=handle.id)
        steps: list[tuple[Callable[[], object], dict[str, str]]] = [
            (lambda: None, {"stage": "accepted"}),
            (lambda: plan(service, request, "bm25", "vector"), {"stage": "planned"}),
            (lambda: service.report(handle.id, "vector", ok("vector")), branch_ended("vector", "ok")),
            (lambda: service.report(handle.id, "bm25", ok("bm25")), branch_ended("bm25", "ok")),
            (lambda: service.join(handle.id), {"stage": "fusing"}),
        ]
        for step, event in steps:
            step()
            assert next(events).to_wire() == event
        self.end(service, handle.id)
        (end,) = events
        assert end.to_wire() == {"stage": "ended", "status": "complete"}
        assert end.answer == handle.answer(0)

    def test_any_process_goes_on_after_the_last_event_of_another(
        self, client: Chorale, service: SingleSteps
    ) -> None:
        handle = client.submit("bread", timeout_s=30)
        plan(service, make_request("bread", request_id=handle.id), "bm25", "vector")
        service.report(handle.id, "vector", ok("vector"))
        first = handle.events()
        accepted, _, vector = (next(first) for _ in range(3))
        service.report(handle.id, "bm25", ok("bm25"))
        service.finish(handle.id, by="fusion", body=BODY_WITH_STAGES, is_complete=False)
        others = client.handle(handle.id)
        seen = list(others.events(after=vector.id))
        assert [event.branch or event.stage for event in seen] == ["bm25", "fusing", "ended"]
        assert others.answer(0) == seen[-1].answer
        seen = list(others.events(after=accepted.id))
        stages = [event.branch or event.stage for event in seen]
        assert stages == ["planned", "bm25", "vector", "fusing", "ended"]
        assert len({event.id for event in seen}) == 5
        assert list(others.events(after=seen[-1].id)) == []
        assert next(others.events(after="no id of an event")).stage == "accepted"

    def test_after_the_end_the_events_are_made_from_the_answer(
        self, client: Chorale, service: SingleSteps
    ) -> None:
        handle = client.submit("bread")
        service.finish(handle.id, by="fusion", body=BODY_WITH_STAGES, is_complete=False)
        assert [event.to_wire() for event in handle.events()] == [
            {"stage": "accepted"},
            {"stage": "planned"},
            branch_ended("bm25", "ok"),
            branch_ended("vector", "timeout"),
            {"stage": "fusing"},
            {"stage": "ended", "status": "degraded"},
        ]

    def test_a_follower_says_that_it_follows(self, client: Chorale, service: SingleSteps) -> None:
        leader, follower = (client.submit("bread", timeout_s=30) for _ in range(2))
        for one in (leader, follower):
            plan(
                service,
                make_request("bread", request_id=one.id),
                "bm25",
                coalescing_key="chorale:coalescing:x",
            )
        events = follower.events()
        assert [next(events).stage for _ in range(2)] == ["accepted", "following"]
        self.end(service, leader.id)
        assert next(events).stage == "ended"


class DocumentsContract(ClientContract):
    def test_documents_are_handed_in_and_awaited(self, client: Chorale, redis_client: Redis) -> None:
        ticket = client.upsert("docs", [{"id": "tea", "text": "Green tea."}])
        assert redis_client.llen(QUEUE_INDEX) == 1
        with pytest.raises(NotEnded, match="is not indexed yet"):
            client.wait_visible(ticket, wait_s=0.1)
        redis_client.set(INDEXED + ticket, json.dumps({"namespace": "docs", "added": 1}))
        assert client.wait_visible(ticket).added == 1
        assert redis_client.zscore(NOT_DONE + "docs", client.delete("docs", ["tea"])) is not None

    def test_wrong_documents_and_tickets_are_errors(self, client: Chorale) -> None:
        with pytest.raises(InvalidRequest):
            client.upsert("Docs!", [])
        with pytest.raises(UnknownRequest, match="hand in the documents as they are now"):
            client.wait_visible(f"docs.{'0' * 32}", wait_s=0)
