"""Redis over TLS with a login for each role: the pipeline runs, and nobody can do what is not theirs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from chorale_client import Chorale, ServiceUnavailable, UnknownRequest
from chorale_client.client import make_request
from chorale_client.keys import entry_key
from chorale_client.ledger import CallersLedger
from redis.exceptions import AuthenticationError, NoPermissionError
from redis.exceptions import ConnectionError as NoConnection

from ledger.outbox import publish_outbox_limit, read_outbox_bound
from tests.support.command_line import command
from tests.support.servers.redis_acl import RolesPipeline, SecuredRedis, needs_tls

ONE_QUEUE = """
[stores.local]
kind = "embedded"
[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"
queue = "chorale.all"
[branches.vector]
kind = "vector"
group = "dense"
store = "local"
queue = "chorale.all"
"""
LIMITED = ("caller", "writer", "worker", "sweeper", "flower", "operator")
FORBIDDEN = (
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("KEYS", "*"),
    ("CONFIG", "GET", "*"),
    ("CONFIG", "SET", "appendonly", "no"),
    ("ACL", "LIST"),
    ("ACL", "SETUSER", "caller", "on", "nopass", "~*", "+@all"),
    ("SHUTDOWN", "NOSAVE"),
    ("MONITOR",),
    ("REPLICAOF", "203.0.113.1", "6379"),
    ("MODULE", "LIST"),
    ("CLIENT", "LIST"),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("SCRIPT", "FLUSH"),
    ("SAVE",),
    ("GET", "another program's"),
    ("EVAL", "return redis.call('GET', ARGV[1])", "0", "another program's"),
    ("EVAL", "return redis.call('KEYS', '*')", "0"),
    ("PUBLISH", "another program's", "x"),
)
OF_OTHERS = {
    "caller": (
        ("DEL", "chorale.retrieve"),
        ("SET", "chorale.retrieve", "x"),
        ("DEL", "_kombu.binding.chorale.retrieve"),
        ("DEL", "chorale:moments"),
        ("ZRANGE", "chorale:moments", "0", "-1"),
        ("DEL", "chorale:outbox"),
        ("SET", "chorale:overload", "x"),
        ("EVAL", "return redis.call('DEL', KEYS[1])", "1", "chorale.retrieve"),
        ("EVAL", "return redis.call('DEL', KEYS[1])", "1", "chorale:moments"),
        ("EVAL", "return redis.call('DEL', KEYS[1])", "1", "chorale:outbox"),
        ("GET", "chorale:cache:x"),
        ("GET", "chorale:heartbeat:bm25"),
        ("SET", "chorale:generation:default", "9"),
        ("HSET", "chorale:breaker:bm25", "open_until", "9"),
        ("HSET", "chorale:timeouts", "", "60"),
        ("SET", "chorale:outbox:limit", "0"),
        ("SET", "chorale:outbox:refused", "0"),
        ("LPUSH", "chorale.bm25", "x"),
        ("LPUSH", "chorale.index", "x"),
        ("GET", "chorale:indexed:x"),
        ("BRPOP", "chorale.retrieve", "1"),
        ("XRANGE", "chorale:outbox", "-", "+"),
        ("SCAN", "0"),
        ("PUBLISH", "/0.celery.pidbox", "x"),
        ("SUBSCRIBE", "/0.celeryev/worker.heartbeat"),
    ),
    "writer": (
        ("DEL", "chorale.index"),
        ("DEL", "chorale.retrieve"),
        ("DEL", "chorale:moments"),
        ("DEL", "chorale:outbox"),
        ("EVAL", "return redis.call('DEL', KEYS[1])", "1", "chorale.index"),
        ("GET", "chorale:cache:x"),
        ("SET", "chorale:indexed:x", "y"),
        ("INFO", "server"),
        ("ZRANGE", "chorale:not_done:docs", "0", "-1"),
        ("BRPOP", "chorale.index", "1"),
        ("HGETALL", "unacked"),
        ("HSET", "unacked", "x", "y"),
        ("LRANGE", "chorale.index", "0", "-1"),
        ("LPUSH", "chorale.bm25", "x"),
        ("SET", "chorale:generation:default", "9"),
    ),
    "worker": (
        ("DEL", "chorale:outbox"),
        ("EVAL", "return redis.call('DEL', KEYS[1])", "1", "chorale:outbox"),
        ("XREAD", "STREAMS", "chorale:outbox", "0"),
        ("XDEL", "chorale:outbox", "1-1"),
        ("XADD", "chorale:outbox:unreadable", "*", "a", "b"),
        ("SCAN", "0"),
    ),
    "sweeper": (("SCAN", "0"), ("INFO",), ("SET", "chorale:indexed:x", "y")),
    "flower": (
        ("GET", "celery-task-meta-x"),
        ("HGETALL", "chorale:request:x"),
        ("LPUSH", "chorale.bm25", "x"),
        ("LRANGE", "chorale.bm25", "0", "-1"),
        ("DEL", "chorale.bm25"),
        ("EVAL", "return redis.call('HGETALL', ARGV[1])", "0", "chorale:request:x"),
        ("SUBSCRIBE", "celery-task-meta-x"),
    ),
}


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredRedis]:
    needs_tls()
    with SecuredRedis() as server:
        yield server


@pytest.fixture(scope="module")
def running(secured: SecuredRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesPipeline]:
    file = tmp_path_factory.mktemp("acl") / "pipeline.toml"
    file.write_text(ONE_QUEUE)
    queues = ["chorale.retrieve", "chorale.all", "chorale.fusion", "chorale.index"]
    with RolesPipeline(
        secured,
        pipeline_file=file,
        queues=queues,
        sweeper=True,
        # A sweeper beside each worker would hide what the role of its own cannot do.
        environment={"CHORALE_SWEEPER_THREADS": "false", "CHORALE_TASK_EVENTS": "true"},
    ) as running:
        running.index()
        yield running


@pytest.fixture
def caller(secured: SecuredRedis) -> Chorale:
    return Chorale(secured.caller_url)


def refused(client: redis.Redis, *command: str) -> bool:
    try:
        client.execute_command(*command)
    except NoPermissionError:
        return True
    except redis.ResponseError as error:
        return "The user executing the script can't" in str(error)
    return False


def test_the_whole_pipeline_runs_over_tls_and_nothing_it_does_is_refused(
    running: RolesPipeline, secured: SecuredRedis, caller: Chorale
) -> None:
    secured.denied()
    answer = caller.retrieve("Who pays for repairs?", include=["texts"], timeout_s=20)
    assert (answer.status, answer.hits[0].document_id) == ("complete", "repairs")
    again = caller.retrieve("Who pays for repairs?", include=["texts"], timeout_s=20)
    assert again.hits == answer.hits
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


def test_the_operator_s_documents_are_indexed_by_workers_and_nothing_on_their_way_is_refused(
    running: RolesPipeline, secured: SecuredRedis, tmp_path: Path
) -> None:
    (tmp_path / "teapot.txt").write_text("A pot for green tea.")
    operator = {**running.environment, "CHORALE_REDIS_URL": secured.url_of("operator")}
    called = command("index", str(tmp_path), "-n", "pots", "--where", "workers", "--prune", **operator)
    done = subprocess.run(**called, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "1 added" in done.stdout
    assert secured.denied() == []


def test_a_caller_that_hands_in_documents_is_told_that_it_may_not(
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
        answer = caller.retrieve("What is bread baked from?", timeout_s=4)
    finally:
        running.resume("chorale.fusion")
    assert answer.hits, answer.degraded
    assert answer.hits[0].document_id == "bread"
    assert {one.where for one in answer.degraded} >= {"fuse"}
    assert secured.denied() == []


@pytest.mark.parametrize("role", ["caller", "writer"])
def test_whoever_asks_may_end_requests_in_every_way_a_caller_does(role: str) -> None:
    needs_tls()
    # A server of its own: nobody works there who would be faster.
    with SecuredRedis() as server, server.as_role(role) as client, server.client() as admin:
        ledger = CallersLedger(client)
        cancelled, follower, failed, refused_one = (make_request("Who pays?") for _ in range(4))
        for request in (cancelled, follower, failed):
            assert ledger.accept(request).is_new
        # As the planner leaves an equal question in flight, which goes on without its leader.
        admin.set("chorale:flight:x", cancelled.request_id)
        leader_key, follower_key = entry_key(cancelled.request_id), entry_key(follower.request_id)
        admin.hset(leader_key, mapping={"flight": "chorale:flight:x", f"follower:{follower.request_id}": 1})
        admin.hset(follower_key, "state", "following")
        assert ledger.cancel(cancelled.request_id)
        assert (admin.exists("chorale:flight:x"), ledger.state(follower.request_id)) == (0, "accepted")
        assert ledger.finish_failed(failed, 0)
        assert ledger.finish_failed(follower, 0)
        admin.hset("chorale:overload", "retry_after_ms", 100)
        assert ledger.accept(refused_one).state == "refused"
        publish_outbox_limit(admin, 1)
        assert ledger.accept(make_request("Who pays?")).state == "refused"
        assert read_outbox_bound(admin).refused == 1
        assert server.denied() == []


@pytest.mark.parametrize("role", LIMITED)
def test_no_role_can_do_what_an_administrator_does(secured: SecuredRedis, role: str) -> None:
    with secured.as_role(role) as client:
        assert [command for command in FORBIDDEN if not refused(client, *command)] == []


@pytest.mark.parametrize("role", sorted(OF_OTHERS))
def test_no_role_can_touch_what_is_another_s(secured: SecuredRedis, role: str) -> None:
    with secured.as_role(role) as client:
        assert [command for command in OF_OTHERS[role] if not refused(client, *command)] == []


def test_the_operator_may_look_at_the_server_and_at_what_could_not_be_audited(secured: SecuredRedis) -> None:
    with secured.as_role("operator") as operator:
        assert operator.info("memory")
        assert not refused(operator, "SCAN", "0")
        assert operator.xlen("chorale:outbox:unreadable") == 0


def test_who_has_not_logged_in_can_ask_whether_the_server_lives_and_no_more(secured: SecuredRedis) -> None:
    address = f"rediss://127.0.0.1:{secured.tls_port}/0?ssl_ca_certs={secured.ca_file}"
    with redis.Redis.from_url(address) as nobody:
        assert nobody.ping()
        assert refused(nobody, "GET", "chorale:moments")
        assert refused(nobody, "INFO")


def test_a_wrong_password_and_an_unknown_authority_are_turned_away(secured: SecuredRedis) -> None:
    wrong = secured.caller_url.replace(secured.passwords["caller"], "guessed-guessed-guessed")
    with redis.Redis.from_url(wrong) as client, pytest.raises(AuthenticationError):
        client.ping()
    system = f"rediss://127.0.0.1:{secured.tls_port}/0?ssl_cert_reqs=required"
    with redis.Redis.from_url(system) as client, pytest.raises(NoConnection, match="certificate"):
        client.ping()
