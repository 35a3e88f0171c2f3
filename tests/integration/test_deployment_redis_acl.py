"""Redis over TLS with a login for each role: the pipeline runs, and nobody can do what is not theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from chorale_client import Chorale
from redis.exceptions import AuthenticationError, NoPermissionError
from redis.exceptions import ConnectionError as NoConnection

from tests.redis_acl import RolesPipeline, SecuredRedis, needs_tls

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
LIMITED = ("caller", "worker", "sweeper", "flower", "operator")
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
        ("GET", "chorale:cache:x"),
        ("GET", "chorale:heartbeat:bm25"),
        ("SET", "chorale:generation:default", "9"),
        ("HSET", "chorale:breaker:bm25", "open_until", "9"),
        ("HSET", "chorale:timeouts", "", "60"),
        ("LPUSH", "chorale.bm25", "x"),
        ("BRPOP", "chorale.retrieve", "1"),
        ("XRANGE", "chorale:outbox", "-", "+"),
        ("SCAN", "0"),
        ("PUBLISH", "/0.celery.pidbox", "x"),
        ("SUBSCRIBE", "/0.celeryev/worker.heartbeat"),
    ),
    "worker": (
        ("XREAD", "STREAMS", "chorale:outbox", "0"),
        ("XDEL", "chorale:outbox", "1-1"),
        ("XADD", "chorale:outbox:unreadable", "*", "a", "b"),
        ("SCAN", "0"),
    ),
    "sweeper": (("SCAN", "0"), ("INFO",)),
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
    queues = ["chorale.retrieve", "chorale.all", "chorale.fusion"]
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
