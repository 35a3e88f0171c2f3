"""Tasks that a request names, or that are linked to it, are sent once the request is in the audit: at least once."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from shutil import copyfile
from typing import Any, cast

import pytest
import redis
from chorale_client.callbacks import Linked
from chorale_client.keys import CALLBACK_LEASE, CALLBACKS, OUTBOX
from chorale_client.request import Request
from kombu import Queue

from config.settings import Settings
from models.duty import holds
from records.audit.deletion import erase_waiting
from records.audit.drainer import Drainer
from records.database import open_database, upgrade
from tasks.callbacks import request_ends
from tasks.callbacks.request_ends import RequestEnds
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.ledger.audit_entries import make_answer, make_entry, make_request, put
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.waiting import until

ON_END = {"task": "shop.ended", "queue": "shop"}
NO_BROKER = "amqp://127.0.0.1:9//"


class Installation:
    """The drainer and the sender of ends in a sweeper process."""

    def __init__(self, home: Path, redis_url: str, **settings: Any) -> None:
        declared = Settings(home=home, **{"on_end_queues": ("shop", "reports"), **settings})
        self.resources = Resources(declared, load_pipeline(None), redis_url)
        self.redis = self.resources.redis
        self.app = make_app(self.resources)
        self.engine = open_database(declared.audit_database_url)
        self.drainer = Drainer(self.redis, self.engine, keep_texts=True)
        self.sender = RequestEnds(self.app)

    def ended(self, **options: Any) -> Request:
        """A request ends with this status, and is drained."""
        status = options.pop("status", "complete")
        request = make_request("Who pays for repairs?", **options)
        put(self.redis, make_entry(request, answer=make_answer(request, status=status)))
        self.drainer.drain_once(1)
        return request

    def sent(self, queue: str = "shop") -> list[dict[str, Any]]:
        """The messages in a queue of Redis, the oldest first: the headers, and `args`, `kwargs` and `embedded`."""
        messages = []
        for raw in reversed(cast("list[bytes]", self.redis.lrange(queue, 0, -1))):
            message = json.loads(raw)
            args, kwargs, embedded = json.loads(b64decode(message["body"]))
            messages.append(message["headers"] | {"args": args, "kwargs": kwargs, "embedded": embedded})
        return messages

    def waiting(self) -> tuple[int, int]:
        """How many ends wait for the audit, and how many to be sent."""
        return self.redis.xlen(OUTBOX), self.redis.xlen(CALLBACKS)

    def close(self) -> None:
        self.app.close()
        self.engine.dispose()
        self.redis.connection_pool.disconnect()


Install = Callable[..., Installation]
"""Makes an installation with these settings, which tries again at once."""


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("empty") / "audit.db"
    upgrade(f"sqlite:///{file}")
    return file


@pytest.fixture
def installed(
    redis_client: redis.Redis,
    redis_server: RedisServer,
    tmp_path: Path,
    empty_database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Install]:
    monkeypatch.setattr(request_ends, "FIRST_PAUSE_S", 0.01)
    copyfile(empty_database, tmp_path / "audit.db")
    with ExitStack() as stack:

        def make(**settings: Any) -> Installation:
            installation = Installation(tmp_path, redis_server.url, **settings)
            stack.callback(installation.close)
            return installation

        yield make


@pytest.fixture
def here(installed: Install) -> Installation:
    return installed()


def test_a_named_task_gets_the_end_once_the_request_is_in_the_audit(here: Installation) -> None:
    request = here.ended(on_end=ON_END, status="degraded")
    assert here.waiting() == (0, 1)

    assert here.sender.send_due(1)

    (message,) = here.sent()
    assert (message["task"], message["args"]) == ("shop.ended", [])
    assert message["kwargs"] == {"request_id": request.request_id, "status": "degraded"}
    assert message["id"].startswith(f"{request.request_id}.")
    assert here.redis.xlen(CALLBACKS) == 0
    assert here.redis.keys("_kombu.binding.*") == []


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        ("complete", ["keep", "log"]),
        ("degraded", ["keep", "log"]),
        ("skipped", ["keep", "log"]),
        ("failed", ["keep", "log", "failed"]),
        ("cancelled", ["keep", "log", "failed"]),
        ("refused", ["keep", "log", "failed"]),
    ],
)
def test_linked_tasks_get_every_answer_and_those_for_errors_the_id_of_a_request_without_one(
    here: Installation, status: str, sent: list[str]
) -> None:
    linked = (
        Linked(
            task="keep", queue="shop", args=(1,), chain=({"task": "next"},), task_id="own", root_id="root"
        ),
        Linked(task="log", queue="shop", first=None),
        Linked(task="failed", queue="shop", first="request_id", is_for_errors=True),
    )
    request = here.ended(linked=linked, status=status)
    here.sender.send_due(1)

    messages = here.sent()
    answer = make_answer(request, status=status)
    assert [message["task"] for message in messages] == sent
    assert [message["args"] for message in messages] == [[answer, 1], [], [request.request_id]][: len(sent)]
    assert messages[0]["embedded"]["chain"] == [{"task": "next"}]
    assert (messages[0]["id"], messages[0]["root_id"]) == ("own", "root")
    assert {message["parent_id"] for message in messages} == {request.request_id}


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_what_follows_has_the_trace_and_the_headers_of_the_caller(here: Installation) -> None:
    linked = (Linked(task="shop.keep", queue="shop", options={"headers": {"tenant": "b", "task": "evil"}}),)
    here.ended(on_end=ON_END, linked=linked, traceparent=TRACE, headers={"tenant": "a", "id": "evil"})
    here.sender.send_due(1)

    on_end, follower = here.sent()
    assert [(one["task"], one["traceparent"]) for one in (on_end, follower)] == [
        ("shop.ended", TRACE),
        ("shop.keep", TRACE),
    ]
    assert (on_end["tenant"], follower["tenant"]) == ("a", "b")
    assert "evil" not in (on_end["id"], follower["id"])


def test_a_task_is_sent_at_its_moment_to_a_queue_of_any_name(installed: Install) -> None:
    here = installed(on_end_queues=("größe, mit Komma",))
    linked = Linked(task="größe", queue="größe, mit Komma", options={"eta": "2030-01-02T00:00:00+00:00"})
    here.ended(linked=(linked,))
    here.sender.send_due(1)

    (sent,) = here.sent("größe, mit Komma")
    assert (sent["task"], sent["eta"]) == ("größe", "2030-01-02T00:00:00+00:00")


def test_the_arguments_of_linked_tasks_and_headers_are_not_in_the_audit(here: Installation) -> None:
    linked = (Linked(task="keep", queue="shop", kwargs={"card": "4711-0815"}),)
    here.ended(linked=linked, headers={"authorization": "4711-0815"})

    with here.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM chorale_request").mappings().all()
    assert rows
    assert "4711-0815" not in str(rows)


def test_two_drainers_pass_an_end_on_once(here: Installation) -> None:
    request = make_request("bread", on_end=ON_END)
    put(here.redis, make_entry(request))
    ((entry, _),) = cast("list[tuple[bytes, Any]]", here.redis.xrange(OUTBOX))
    for _ in range(2):
        here.drainer._scripts.run("pass_on", [OUTBOX, CALLBACKS], [10, entry])
    assert here.redis.xlen(CALLBACKS) == 1


def test_while_the_broker_is_away_ends_wait_and_are_sent_later(
    here: Installation, installed: Install
) -> None:
    away = installed(broker_url=NO_BROKER)
    request = away.ended(on_end=ON_END)
    assert not away.sender.send_due(1)
    assert away.waiting() == (0, 1)

    away.sender._app = here.app  # the broker is back
    until(lambda: away.sender.send_due(1) and away.waiting() == (0, 0))
    assert here.sent()[0]["kwargs"]["request_id"] == request.request_id


def test_a_queue_that_is_not_there_yet_keeps_no_other_task_waiting(
    installed: Install,
) -> None:
    url = need("rabbitmq", "tasks that are sent through it are not tested")
    with own_queues(url, ["shop", "reports"]) as connection:
        here = installed(broker_url=url)

        def received(queue: str) -> Any:
            return Queue(queue, channel=connection.default_channel).get(no_ack=True)

        connection.default_channel.queue_declare("shop", durable=True, auto_delete=False)
        here.ended(on_end={"task": "reports.ended", "queue": "reports"})
        here.ended(on_end=ON_END)
        assert not here.sender.send_due(1)
        assert received("shop").headers["task"] == "shop.ended"
        assert here.waiting() == (0, 1)

        connection.default_channel.queue_declare("reports", durable=True, auto_delete=False)
        until(lambda: here.sender.send_due(1) and here.waiting() == (0, 0))
        assert received("reports").headers["task"] == "reports.ended"


def test_one_process_tells_and_another_takes_over_when_it_is_silent(here: Installation) -> None:
    first, second = RequestEnds(here.app), RequestEnds(here.app)
    assert holds(first._lease)
    assert not holds(second._lease)
    assert holds(first._lease)
    assert 0 < here.redis.pttl(CALLBACK_LEASE) <= request_ends.ACTING_MS

    here.redis.delete(CALLBACK_LEASE)  # it expires
    assert holds(second._lease)
    assert not holds(first._lease)
    here.ended(on_end=ON_END)
    second.send_due(1)
    assert len(here.sent()) == 1


@pytest.mark.parametrize(
    "named",
    [{"on_end": {"task": "t", "queue": "elsewhere"}}, {"linked": (Linked(task="t", queue="elsewhere"),)}],
    ids=["on_end", "link"],
)
def test_a_queue_that_the_installation_does_not_allow_gets_nothing(
    here: Installation, named: Mapping[str, Any]
) -> None:
    here.ended(**named)
    here.sender.send_due(1)
    assert (here.redis.xlen(CALLBACKS), here.sent("elsewhere")) == (0, [])


def test_a_task_is_not_sent_for_ever(installed: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_ends, "TRIED_FOR_S", -1.0)
    away = installed(broker_url=NO_BROKER)
    away.ended(on_end=ON_END)
    away.sender.send_due(1)
    assert away.waiting() == (0, 0)


def test_no_task_is_sent_for_a_request_that_names_none_or_is_erased(here: Installation) -> None:
    here.ended()
    assert here.waiting() == (0, 0)
    request = here.ended(on_end=ON_END)
    erase_waiting(here.redis, "request_id", request.request_id)
    here.sender.send_due(1)
    assert (here.waiting(), here.sent()) == ((0, 0), [])
