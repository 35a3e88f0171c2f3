"""The login of each role on Redis can do what its role needs, and nothing that belongs to another role."""

from __future__ import annotations

import pytest
import redis
from chorale_client.keys import UNACKED
from redis.exceptions import AuthenticationError, NoPermissionError
from redis.exceptions import ConnectionError as NoConnection

from ledger.backlog import read_quarantine
from monitoring.counting import add_tokens
from monitoring.exporter import render
from tests.support.servers.redis_acl import SecuredRedis

LIMITED = ("caller", "application", "writer", "http", "worker", "sweeper", "flower", "operator")
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
DELETES = "return redis.call('DEL', KEYS[1])"
FOREIGN = {
    "caller": (
        ("DEL", "chorale.retrieve"),
        ("DEL", "_kombu.binding.chorale.retrieve"),
        *(("EVAL", DELETES, "1", key) for key in ("chorale.retrieve", "chorale:moments", "chorale:outbox")),
        ("EVAL", "return redis.call('GET', KEYS[1])", "1", "chorale:signing"),
        ("HGETALL", "unacked"),
        ("SCAN", "0"),
        ("PUBLISH", "/0.celery.pidbox", "x"),
        ("SUBSCRIBE", "/0.celeryev/worker.heartbeat"),
        ("PSUBSCRIBE", "celery-task-meta-*"),
    ),
    "application": (
        ("BRPOP", "app", "chorale.retrieve", "1"),
        ("BRPOP", "another", "1"),
        ("HGETALL", UNACKED),
        ("ZREM", f"{UNACKED}_index", "x"),
        ("DEL", "_kombu.binding.chorale.retrieve"),
        ("EVAL", "return redis.call('RPOP', KEYS[1])", "1", "chorale.retrieve"),
        ("SCAN", "0"),
    ),
    "writer": (("EVAL", DELETES, "1", "chorale.index"), ("INFO", "server"), ("HSET", UNACKED, "x", "y")),
    "http": (("DEL", "chorale:rate:x"), ("GET", "chorale:signing"), ("BRPOP", "chorale.retrieve", "1")),
    "worker": (("EVAL", DELETES, "1", "chorale:outbox"), ("XREAD", "STREAMS", "chorale:outbox", "0"), ("SCAN", "0")),
    "sweeper": (("SCAN", "0"), ("INFO",), ("SET", "chorale:indexed:x", "y")),
    "flower": (
        ("LPUSH", "chorale.bm25", "x"),
        ("EVAL", "return redis.call('HGETALL', ARGV[1])", "0", "chorale:request:x"),
        ("SUBSCRIBE", "celery-task-meta-x"),
    ),
}  # fmt: skip
"""Rights that `test_redis_login_table.py` does not show, and one command of each kind that it shows."""


def refused(client: redis.Redis, *command: str) -> bool:
    try:
        client.execute_command(*command)
    except NoPermissionError:
        return True
    except redis.ResponseError as error:
        return "The user executing the script can't" in str(error)
    return False


@pytest.mark.parametrize("role", LIMITED)
def test_no_role_can_do_what_an_administrator_does(secured: SecuredRedis, role: str) -> None:
    with secured.as_role(role) as client:
        assert [command for command in FORBIDDEN if not refused(client, *command)] == []


@pytest.mark.parametrize("role", sorted(FOREIGN))
def test_no_role_can_touch_the_data_of_another_role(secured: SecuredRedis, role: str) -> None:
    with secured.as_role(role) as client:
        assert [command for command in FOREIGN[role] if not refused(client, *command)] == []


def test_the_operator_may_look_at_the_server_and_at_what_could_not_be_audited(secured: SecuredRedis) -> None:
    with secured.as_role("operator") as operator:
        assert operator.info("memory")
        assert not refused(operator, "SCAN", "0")
        assert read_quarantine(operator).entries == 0
        assert operator.xlen("chorale:outbox:unreadable") == 0


def test_a_connection_without_a_login_may_only_ping(secured: SecuredRedis) -> None:
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


def test_a_worker_may_count_the_tokens_of_endpoints_and_read_no_metric(secured: SecuredRedis) -> None:
    with secured.as_role("worker") as worker:
        add_tokens(worker, "encoder", "e5", 7)
        assert refused(worker, "HGETALL", "chorale:metrics")
    with secured.as_role("http") as client:
        assert b'chorale_endpoint_tokens_total{name="e5",role="encoder"} 7.0' in render(client)
