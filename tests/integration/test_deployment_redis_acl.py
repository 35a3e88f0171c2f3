"""Redis over TLS with a login for each role: the whole pipeline runs, and nothing that it does is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis
from celery import Celery
from celery.app.control import Control
from chorale_client import Chorale, ServiceUnavailable, UnknownRequest
from chorale_client.connections.urls import broker_tls, celery_url
from chorale_client.keys import FOLLOWERS, entry_key
from chorale_client.ledger import CallersLedger
from chorale_client.request_factory import make_request
from kombu.exceptions import OperationalError

from ledger.backlog import publish_outbox_limit, read_outbox_bound
from ledger.protocol import End
from ledger.redis import RedisLedger
from records.audit.queries import show
from records.database import open_database, upgrade
from tests.integration.api.visitors import visitor
from tests.support.attacks.routes import JSONL, NAMESPACE, ROUTES, call
from tests.support.client_on_a_loop import ClientOnALoop
from tests.support.faults.moments import end_without_fusion
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_acl import RolesPipeline, SecuredRedis, needs_tls
from tests.support.waiting import until

ONE_QUEUE = """
[stores.local]
kind = "embedded"
[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"
queue = "chorale.all"
[branches.again]
kind = "bm25"
group = "lexical"
store = "local"
queue = "chorale.all"
[configurations.rrf]
method = "rrf"
[configurations.words]
method = "rrf"
branches = ["bm25"]
[shadow]
a = "words"
b = "rrf"
share = 1
"""


@pytest.fixture(scope="module")
def running(secured: SecuredRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesPipeline]:
    file = tmp_path_factory.mktemp("acl") / "pipeline.toml"
    file.write_text(ONE_QUEUE)
    queues = ["chorale.retrieve", "chorale.all", "chorale.fusion", "chorale.index", "chorale.bulk"]
    with RolesPipeline(
        secured,
        pipeline_file=file,
        queues=queues,
        sweeper=True,
        # A sweeper beside each worker would hide what the role of its own cannot do.
        environment={
            "CHORALE_SWEEPER_THREADS": "false",
            "CHORALE_TASK_EVENTS": "true",
            "CHORALE_ON_END_QUEUES": "app",
        },
    ) as running:
        running.index()
        yield running


@pytest.fixture
def caller(secured: SecuredRedis) -> Chorale:
    return Chorale(secured.caller_url)


def test_the_whole_pipeline_runs_over_tls_and_nothing_it_does_is_refused(
    running: RolesPipeline, secured: SecuredRedis, caller: Chorale
) -> None:
    secured.denied()
    answer, again = (
        caller.retrieve("Who pays for repairs?", include=["texts"], timeout_s=20) for _ in range(2)
    )
    assert (answer.status, answer.hits[0].document_id, again.hits) == ("complete", "repairs", answer.hits)
    with ClientOnALoop(secured.caller_url) as on_a_loop:
        handle = on_a_loop.submit("Who pays for repairs?", cache="bypass", timeout_s=20)
        assert [event.stage for event in handle.events()][-1] == "ended"
        assert handle.answer(0).status == on_a_loop.cancel(handle.id).status == "complete"
    assert secured.denied() == []


def test_a_shadow_is_searched_by_a_bulk_worker_and_nothing_on_its_way_is_refused(
    running: RolesPipeline, secured: SecuredRedis, caller: Chorale
) -> None:
    secured.denied()
    question = "Who pays for repairs?"
    answer = caller.retrieve(question, request_id="shadowed", configuration="words", timeout_s=20)
    assert answer.status == "complete"
    url = running.resources.settings.audit_database_url
    upgrade(url)
    engine = open_database(url)
    shadow = until(lambda: show(engine, "shadowed.shadow"), 30)
    engine.dispose()
    assert shadow is not None
    assert (shadow.status, shadow.configuration, shadow.ended_by) == ("complete", "rrf", "fusion")
    assert {branch["queue"] for branch in (shadow.plan or {})["branches"]} == {"chorale.bulk"}
    assert secured.denied() == []


def test_a_writer_s_documents_come_and_go_and_nothing_on_their_way_is_refused(
    running: RolesPipeline, secured: SecuredRedis, caller: Chorale
) -> None:
    writer = Chorale(secured.url_of("writer"))
    came = writer.wait_visible(
        writer.upsert("shop", [{"id": "teapot", "title": "Teapot", "text": "A pot for green tea."}]),
        wait_s=30,
    )
    assert (came.added, came.error) == (1, None)
    for asking in (writer, caller):
        answer = asking.retrieve("what is green tea made in?", namespace="shop", timeout_s=20)
        assert [hit.document_id for hit in answer.hits] == ["teapot"]
    gone = writer.wait_visible(writer.delete("shop", ["teapot"]), wait_s=30)
    assert gone.deleted == 1
    with pytest.raises(UnknownRequest):
        writer.wait_visible(f"shop.{'0' * 32}", wait_s=0)
    assert secured.denied() == []


def test_a_caller_s_job_is_answered_and_nothing_on_its_way_is_refused(
    running: RolesPipeline, secured: SecuredRedis, caller: Chorale
) -> None:
    job = caller.jobs.submit(
        ["Who pays for repairs?", "When is a deposit returned?"],
        namespace="default",
        on_end={"task": "told", "queue": "app"},
    )
    documents = [line["hits"][0]["document_id"] for line in job.results(wait=True)]
    assert documents == ["repairs", "deposit"]
    assert job.wait(30).outcome == "completed"
    with secured.client() as admin:
        until(lambda: admin.llen("app") == 1)
    assert secured.denied() == []


def test_a_caller_that_hands_in_documents_gets_an_error(
    running: RolesPipeline, secured: SecuredRedis, caller: Chorale
) -> None:
    with pytest.raises(ServiceUnavailable, match="Redis refuses"):
        caller.upsert("shop", [{"id": "spam", "text": "Buy now."}])
    assert any("caller key" in denied for denied in secured.denied())


def test_the_sweeper_ends_what_nobody_fuses_with_its_own_login(
    running: RolesPipeline, secured: SecuredRedis, caller: Chorale
) -> None:
    running.pause("chorale.fusion")
    try:
        request_id = caller.send("What is bread baked from?", timeout_s=20)
        end_without_fusion(running, request_id)
        answer = caller.answer(request_id, wait_s=20)
    finally:
        running.resume("chorale.fusion")
    assert answer.hits, answer.degraded
    assert answer.hits[0].document_id == "bread"
    assert {one.where for one in answer.degraded} >= {"fuse"}
    assert secured.denied() == []


@contextmanager
def controlling(secured: SecuredRedis, role: str) -> Iterator[Control]:
    """Celery's remote control with this login."""
    url = secured.url_of(role)
    app = Celery(role, broker=celery_url(url), set_as_current=False)
    options = {"priority_steps": [0], "ack_emulation": False}  # as config.celery has it for Flower
    app.conf.update(broker_use_ssl=broker_tls(url), broker_transport_options=options)
    yield app.control
    app.close()


def test_flower_s_login_may_not_command_workers_unless_that_is_turned_on(secured: SecuredRedis) -> None:
    with controlling(secured, "flower") as control:
        for command in (control.shutdown, control.ping):
            with pytest.raises(
                (redis.ResponseError, OperationalError), match=r"permission|Transaction discarded"
            ):
                command()
    assert any("pidbox" in denied for denied in secured.denied())
    with SecuredRedis(remote_control=True) as server, controlling(server, "flower") as control:
        control.shutdown()
        assert control.ping(timeout=0.1) == []
        assert server.denied() == []


def test_workers_obey_no_command_of_anybody(
    running: RolesPipeline, secured: SecuredRedis, caller: Chorale
) -> None:
    with controlling(secured, "admin") as control:
        control.broadcast("cancel_consumer", arguments={"queue": "chorale.retrieve"})
        control.broadcast("shutdown")
        assert control.ping(timeout=0.5) == []
    assert caller.retrieve("What is bread baked from?", cache="bypass", timeout_s=20).status == "complete"
    assert [name for name, process in running.processes.items() if process.poll() is not None] == []


@pytest.fixture
def deserted() -> Iterator[SecuredRedis]:
    """A server without workers, which would take a message before the test does."""
    needs_tls()
    with SecuredRedis() as server:
        yield server


@pytest.mark.parametrize("role", ["caller", "writer"])
def test_whoever_asks_may_end_requests_in_every_way_a_caller_does(deserted: SecuredRedis, role: str) -> None:
    with deserted.as_role(role) as client, deserted.client() as admin:
        ledger = CallersLedger(client)
        cancelled, follower, failed, refused_one = (make_request("Who pays?", timeout_s=60) for _ in range(4))
        for request in (cancelled, follower, failed):
            assert ledger.accept(request).is_new
        # As the planner leaves an equal question in flight, which goes on without its leader.
        admin.set("chorale:coalescing:x", cancelled.request_id)
        leader_key, follower_key = entry_key(cancelled.request_id), entry_key(follower.request_id)
        admin.hset(leader_key, "coalescing_key", "chorale:coalescing:x")
        admin.hset(f"chorale:followers:{cancelled.request_id}", follower.request_id, "chorale:coalescing:x")
        admin.hset(follower_key, mapping={"state": "following", "leader": cancelled.request_id})
        assert ledger.cancel(cancelled.request_id)
        with deserted.as_role("sweeper") as sweeper:
            RedisLedger(sweeper).sweep("sweeper")
        assert ledger.state(follower.request_id) == "accepted"
        assert ledger.finish_failed(failed, 0)
        assert ledger.finish_failed(follower, 0)
        admin.hset("chorale:overload", "retry_after_ms", 100)
        assert ledger.accept(refused_one).state == "refused"
        publish_outbox_limit(admin, 1)
        assert ledger.accept(make_request("Who pays?")).state == "refused"
        assert read_outbox_bound(admin).refused == 1
        assert deserted.denied() == []


def test_a_right_that_an_older_acl_file_lacks_is_an_error_and_no_request_that_has_ended(
    deserted: SecuredRedis,
) -> None:
    request = make_request("Who pays?", timeout_s=60)
    acl = deserted.folder / "users.acl"
    whole = acl.read_text()
    with deserted.as_role("worker") as worker:
        assert CallersLedger(worker).accept(request).is_new
    for right in (f" ~{FOLLOWERS}*", " +hgetall"):
        acl.write_text(whole)
        deserted.take_away(right)
        with deserted.as_role("worker") as worker, pytest.raises(redis.ResponseError, match=r"can't|NOPERM"):
            RedisLedger(worker).finish_all([End(request.request_id, '"status":"failed"', False)], by="fusion")


def test_every_route_of_the_http_api_works_with_its_login_and_nothing_is_refused(
    running: RolesPipeline, secured: SecuredRedis
) -> None:
    settings = running.resources.settings.model_copy(update={"redis_url": secured.url_of("http")})
    upgrade(settings.audit_database_url)
    secured.denied()
    with HttpApi(settings) as api, api.client() as client:
        documents = f"/v1/namespaces/{NAMESPACE}/documents"
        handed_in = client.post(documents, json={"documents": [{"id": "pot", "text": "A pot for tea."}]})
        place = handed_in.headers["location"]
        until(lambda: client.get(place).json()["state"] == "done", 30)
        search = client.post("/v1/searches", json={"questions": ["Who pays for repairs?"]}).json()
        assert search["status"] == "complete", search
        job = client.post(
            "/v1/jobs", params={"namespace": NAMESPACE}, content=b'{"text": "tea"}', headers=JSONL
        )
        ids = {
            "search_id": search["request_id"],
            "request_id": search["request_id"],
            "job_id": job.json()["job_id"],
            "namespace": NAMESPACE,
            **handed_in.json(),
        }
        for route in ROUTES:
            response = call(client, route, ids)
            assert response.status_code < 500, (route, response.text)
        ready = client.get("/readyz")
        assert ready.json() == {"is_ready": True, "missing": []}
        assert client.get("/metrics").status_code == 200
        with visitor(api) as browser:
            assert browser.get("/console/health").status_code == 200
        with api.client("limited", requests_per_minute=1) as limited:
            statuses = [limited.get("/v1/namespaces").status_code for _ in range(2)]
    assert secured.denied() == []
    assert statuses == [200, 429]
