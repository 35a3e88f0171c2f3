"""The receiver that a submitter named is called at the end of a job, at least once."""

from __future__ import annotations

import base64
import hmac
import json
import socket
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from kombu import Queue
from pydantic import ValidationError
from redis import Redis

from config.callback_policy import check_on_end
from config.secret_keys import secret_of_key, signing_keys
from config.settings import Settings
from models.errors import WrongDeclaration
from records.database import upgrade
from records.jobs.job import Outcome, State
from tasks.callbacks import job_ends, request_ends
from tasks.callbacks.job_ends import JobEnds, WebhookFailed, checked_address, signed
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.jobs import answered, ended, lines, result, submitted
from tests.support.servers.certificates import Certificate
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.servers.webhook import SECRET, Hook
from tests.support.waiting import until

QUEUE = "app.of.the.user"


class Installation:
    """A store of jobs, and the part of a feeder that calls the receivers of their ends."""

    def __init__(self, home: Path, redis_url: str, **settings: Any) -> None:
        allowed = {"webhook_hosts": "127.0.0.1", "on_end_queues": (QUEUE,)}
        configured = Settings(home=home, webhook_secret=SECRET, **allowed, **settings)
        self.resources = Resources(configured, load_pipeline(None), redis_url)
        upgrade(configured.audit_database_url)
        self.store = self.resources.jobs
        self.app = make_app(self.resources)
        self.on_end = JobEnds(self.app)

    def ends(
        self, job_id: str, named: dict[str, str], by_line: Mapping[int, dict[str, Any]] | None = None
    ) -> None:
        """Ends a job whose end has a receiver."""
        submitted(self.store, job_id, [lines(3, refused=[2])], on_end=named, name="weekly")
        ended(self.store, job_id, by_line)

    def unsent(self) -> list[str]:
        """Calls the receivers, and returns the jobs whose receivers have not been called yet."""
        active = self.store.active()
        self.on_end.start_due([job for job in active if job.state == State.ENDED])
        return [job.job_id for job in active]

    def notify(self) -> None:
        """Returns when each receiver was called, once: an end that is read during its call may cause another call."""
        until(lambda: self._wait_for_threads() or not self.unsent())

    def close(self) -> None:
        self._wait_for_threads()
        self.app.close()
        self.store.close()
        self.resources.redis.connection_pool.disconnect()

    @staticmethod
    def _wait_for_threads() -> None:
        for thread in threading.enumerate():
            if thread.name == "on_end":
                thread.join(5)


@pytest.fixture
def here(
    redis_client: Redis, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    monkeypatch.setattr(request_ends, "FIRST_PAUSE_S", 0.1)
    installation = Installation(tmp_path, redis_server.url)
    yield installation
    installation.close()


def test_the_second_cell_sends_an_end_only_if_the_first_has_not_sent_it_for_a_while(
    redis_client: Redis, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ends, "NEXT_CELL_S", 0.2)
    cells = {"a": "redis://127.0.0.1:1/0", "b": redis_server.url}
    second = Installation(tmp_path, redis_server.url, cells=cells)
    with Hook() as hook:
        second.ends("job", {"url": hook.url})
        assert second.unsent() == ["job"]
        second._wait_for_threads()
        assert hook.got == []
        second.notify()
    assert len(hook.got) == 1
    second.close()


# Webhooks


def test_a_webhook_brings_the_job_with_a_signature(here: Installation) -> None:
    with Hook() as hook:
        here.ends("job", {"url": hook.url})
        here.notify()
    ((path, headers, body),) = hook.got
    assert (path, headers["Content-Type"]) == ("/ended?of=jobs", "application/json")
    job = here.store.get("job")
    assert json.loads(body) == json.loads(json.dumps(job.to_wire()))
    assert headers["webhook-id"] == f"job.{job.ended_at_ms}"
    sent_s = int(headers["webhook-timestamp"])
    assert abs(sent_s - time.time()) < 60
    keys = signing_keys(Settings(webhook_secret=SECRET), None)
    signature = signed(headers["webhook-id"], body, keys, now_s=sent_s)["webhook-signature"]
    assert headers["webhook-signature"] == signature
    # The example of the specification's own libraries.
    settings = Settings(webhook_secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    keys, example = signing_keys(settings, None), b'{"test": 2432232314}'
    headers = signed("msg_p5jXN8AQM9LWM0D4loKWxJek", example, keys, now_s=1614265330)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def verifies(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a receiver with this secret accepts the webhook, as the libraries of Standard Webhooks do."""
    key = b64decode(secret.removeprefix("whsec_"))
    content = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    expected = f"v1,{b64encode(hmac.new(key, content, sha256).digest()).decode()}"
    return expected in headers["webhook-signature"].split(" ")


def test_the_webhooks_of_a_key_are_signed_with_its_own_secret(here: Installation) -> None:
    with Hook() as hook:
        here.ends("job", {"url": hook.url, "key_id": "first"})
        here.notify()
    ((_, headers, body),) = hook.got
    settings = Settings(webhook_secret=SECRET)
    first, second = (secret_of_key(settings, key_id) or "" for key_id in ("first", "second"))
    assert (verifies(first, headers, body), verifies(second, headers, body)) == (True, False)


def test_while_there_are_two_secrets_receivers_with_either_accept_a_webhook() -> None:
    new, old = "a-new-secret-of-30-characters", SECRET
    both = signing_keys(Settings(webhook_secret=f"{new}, {old}"), "first")
    headers = signed("job.1", b"{}", both)
    for secret in (new, old):
        assert verifies(secret_of_key(Settings(webhook_secret=secret), "first") or "", headers, b"{}")


@pytest.mark.parametrize(
    ("secrets", "message"),
    [
        ("short", "at least 16 characters"),
        (f"{SECRET},short", "at least 16 characters"),
        (f"{SECRET},{SECRET},{SECRET}", "one secret, or two"),
        ("whsec_no-base64-at-all", "what follows whsec_ is not base64"),
    ],
)
def test_wrong_secrets_are_refused(secrets: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings(webhook_secret=secrets)


@pytest.mark.parametrize("status", [500, *(pytest.param(one, marks=pytest.mark.slow) for one in (302, 404))])
def test_a_receiver_that_fails_is_called_again_with_growing_pauses(here: Installation, status: int) -> None:
    with Hook(status, status) as hook:
        here.ends("job", {"url": hook.url})
        here.notify()
    assert len(hook.got) == 3
    assert len({headers["webhook-id"] for _, headers, _ in hook.got}) == 1
    attempts = request_ends.Attempts()
    pauses_s = [attempts.failed(longest_s=0.5) for _ in range(4)]
    assert pauses_s == [0.1, 0.2, 0.4, 0.5], "they grow up to a limit"


@pytest.mark.slow
def test_an_absent_or_slow_receiver_holds_nobody_up(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ends, "ANSWERS_WITHIN_S", 3)
    with Hook(*[0] * 50) as slow, Hook() as hook:
        here.ends("away", {"url": "http://127.0.0.1:9/"})
        here.ends("slow", {"url": slow.url})
        here.ends("job", {"url": hook.url})
        here.unsent()
        assert any(one.is_running for one in here.on_end._known.values()), "it waited for the slow one"
        until(lambda: here.unsent() == ["away", "slow"])
        until(lambda: here.unsent() and len(slow.got) > 1)
        here.store.prune(before_ms=10**15)
        assert here.unsent() == [], "the receiver of a deleted job is not called"


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(here: Installation, tmp_path: Path) -> None:
    with Hook(certificate=Certificate.make(tmp_path)) as hook:
        here.ends("job", {"url": hook.url})
        here.unsent()
        until(lambda: here.on_end._known and not any(one.is_running for one in here.on_end._known.values()))
    assert hook.got == []
    assert here.unsent() == ["job"]


def test_each_end_of_a_job_that_is_answered_again_is_sent(here: Installation) -> None:
    with Hook() as hook:
        here.ends("job", {"url": hook.url}, {1: result("failed")})
        here.notify()
        here.store.retry("job", ["failed"], now_ms=200)
        answered(here.store, "job")
        here.store.end("job", Outcome.COMPLETED, now_ms=300)
        here.notify()
    assert [headers["webhook-id"] for _, headers, _ in hook.got] == ["job.100", "job.300"]
    assert [json.loads(body)["counts"]["failed"] for _, _, body in hook.got] == [1, 0]


# Tasks


def test_a_task_of_another_application_is_notified(here: Installation) -> None:
    here.ends("job", {"task": "reports.job_ended", "queue": QUEUE})
    here.notify()
    message = json.loads(here.resources.redis.lrange(QUEUE, 0, -1)[0])
    assert message["headers"]["task"] == "reports.job_ended"
    counts = here.store.get("job").counts
    event = {"job_id": "job", "state": "ended", "outcome": "completed", "counts": counts}
    assert json.loads(base64.b64decode(message["body"]))[1] == event
    assert counts["complete"] == 2
    assert here.resources.redis.keys("_kombu.binding.chorale*") == []


def test_a_task_comes_through_rabbitmq_once_it_has_a_queue(tmp_path: Path, redis_server: RedisServer) -> None:
    url = need("rabbitmq", "tasks that are called through it are not tested")
    with own_queues(url, [QUEUE]) as connection:
        there = Installation(tmp_path, redis_server.url, broker_url=url)
        there.ends("job", {"task": "reports.job_ended", "queue": QUEUE})
        (job,) = there.store.active()
        with pytest.raises(Exception, match="NO_ROUTE"):
            job_ends.send_task(there.app, job, "reports.job_ended", QUEUE)
        connection.default_channel.queue_declare(QUEUE, durable=True, auto_delete=False)
        there.notify()
        message = Queue(QUEUE, channel=connection.default_channel).get(no_ack=True)
        assert (message.headers["task"], message.payload[1]["job_id"]) == ("reports.job_ended", "job")
        there.close()


# Who may be named


@pytest.mark.parametrize(
    ("named", "settings", "why"),
    [
        ({"url": "https://example.org"}, {"webhook_secret": None}, "CHORALE_WEBHOOK_SECRET"),
        ({"url": "http://example.org"}, {}, "begins with https://, unless CHORALE_WEBHOOK_HOSTS"),
        ({"url": "https://localhost/"}, {}, "localhost is no public address"),
        ({"url": "https://10.0.0.1/"}, {}, "10.0.0.1 is no public address"),
        ({"url": "https://[::1]:8443/"}, {}, "::1 is no public address"),
        ({"task": "t", "queue": "b"}, {"on_end_queues": "a, c"}, "'b' is not in .*; there are: a, c"),
    ],
)
def test_a_job_may_name_only_receivers_that_the_installation_allows(
    named: dict[str, str], settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(WrongDeclaration, match=why):
        check_on_end(named, Settings(**{"webhook_secret": SECRET, **settings}))
    with pytest.raises(ValueError, match="a queue of the pipeline"):
        Settings(on_end_queues="app,chorale.index")


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    resolved = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved)


PUBLIC = ("93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:93.184.215.14")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.9.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "fc00::1", "fe80::1", "fe80::1%eth0"),
        *("ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
        *(
            "64:ff9b:1::7f00:1",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "fec0::1",
            "192.0.0.192",
            "168.63.129.16",
        ),
    ],
)
def test_no_webhook_calls_a_name_of_which_one_address_is_not_public(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    resolving(monkeypatch, *PUBLIC, address)
    with pytest.raises(WebhookFailed, match="no public address, and not in CHORALE_WEBHOOK_HOSTS"):
        checked_address("rebinds.example", 443, Settings())
    named = Settings(webhook_hosts="other.example, rebinds.example")
    assert checked_address("rebinds.example", 443, named) == PUBLIC[0]
    resolving(monkeypatch, *PUBLIC)
    assert checked_address("example.org", 443, Settings()) == PUBLIC[0]


def test_the_call_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name may resolve to another machine right after the lookup."""
    called: list[Any] = []

    def connect(where: Any, timeout: float) -> socket.socket:
        called.append(where)
        raise ConnectionRefusedError

    resolving(monkeypatch, PUBLIC[0])
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(ConnectionRefusedError):
        job_ends.post("job.1", b"{}", "https://rebinds.example/", Settings(webhook_secret=SECRET))
    assert called == [(PUBLIC[0], 443)]
