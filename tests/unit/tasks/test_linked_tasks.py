"""What follows a request is read from Celery's own messages, as `celery.canvas` writes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, chain, group
from chorale_client.callbacks import Linked
from chorale_client.errors import InvalidRequest
from kombu.utils.json import dumps, loads

from tasks.callbacks.linked_tasks import is_followed, linked_tasks

QUEUES = ("shop", "reports")
app = Celery("shop", broker="memory://", backend="cache+memory://", set_as_current=False)


def task(name: str, **options: Any) -> Any:
    return app.signature(name, **options)


ASK = task("chorale.retrieve")
Message = Callable[..., SimpleNamespace]


@pytest.fixture
def message(monkeypatch: pytest.MonkeyPatch) -> Message:
    """Returns a function that applies a signature, and returns its first message as a task sees it (`task.request`)."""
    sent: list[Any] = []
    monkeypatch.setattr(app.amqp, "send_task_message", lambda _, name, message, **more: sent.append(message))

    def apply(signature: Any, **options: Any) -> SimpleNamespace:
        sent.clear()
        signature.apply_async(**options)
        _, _, embedded = loads(dumps(sent[0].body))
        return SimpleNamespace(root_id=sent[0].headers["root_id"], headers=options.get("headers"), **embedded)

    return apply


def names(linked: tuple[Linked, ...]) -> list[tuple[str, str, str | None]]:
    return [(one.task, one.queue, one.first) for one in linked]


def test_a_call_that_nothing_follows_links_nothing(message: Message) -> None:
    assert not is_followed(message(ASK))
    assert linked_tasks(message(ASK), QUEUES).linked == ()


def test_half_a_character_in_a_header_is_refused_by_field(message: Message) -> None:
    called = message(ASK, link=task("keep"))
    called.root_id = "\ud800"
    with pytest.raises(InvalidRequest, match=r"^link: root_id: invalid Unicode"):
        linked_tasks(called, QUEUES)


def test_linked_tasks_get_the_answer_and_those_for_errors_the_id(message: Message) -> None:
    signature = task("keep", args=(1,), kwargs={"a": 2}, queue="reports", countdown=3)
    called = message(ASK, link=[signature, task("log", immutable=True)], link_error=task("failed"))
    linked = linked_tasks(called, QUEUES).linked

    assert is_followed(called)
    assert names(linked) == [
        ("keep", "reports", "answer"),
        ("log", "shop", None),
        ("failed", "shop", "request_id"),
    ]
    assert [one.is_for_errors for one in linked] == [False, False, True]
    assert (linked[0].args, linked[0].kwargs, linked[0].options) == ((1,), {"a": 2}, {"countdown": 3})
    assert {one.root_id for one in linked} == {called.root_id}


def test_the_rest_of_a_chain_travels_with_its_next_task(message: Message) -> None:
    steps = chain(ASK, task("a"), chain(task("b"), task("c")), app=app)
    steps.freeze()
    (linked,) = linked_tasks(message(steps), QUEUES).linked
    assert (linked.task, bool(linked.task_id)) == ("a", True)
    assert [one["task"] for one in linked.chain] == ["c", "b"], "as Celery writes it: the next is the last"
    (linked,) = linked_tasks(message(ASK, link=chain(task("a"), task("b"), app=app)), QUEUES).linked
    assert (linked.task, [one["task"] for one in linked.chain]) == ("a", ["b"])
    several = linked_tasks(message(chain(ASK, group(task("a"), task("b"), app=app), app=app)), QUEUES).linked
    assert [one.task for one in several] == ["a", "b"]


def test_a_chord_neither_follows_a_request_nor_has_one(message: Message) -> None:
    both = group(task("a"), task("b"), app=app)
    with pytest.raises(InvalidRequest, match="a chord cannot follow a request; begin it in a task of yours"):
        linked_tasks(message(chain(ASK, both, task("c"), app=app)), QUEUES)
    part = message(ASK, chord=task("keep"))
    with pytest.raises(InvalidRequest, match="a request cannot be part of a chord"):
        linked_tasks(part, QUEUES)


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ({"args": []}, "no signature of Celery"),
        ({"task": "a", "subtask_type": "chain", "kwargs": {"tasks": []}}, "no signature of Celery"),
        ("keep", "link: "),
    ],
    ids=str,
)
def test_what_cannot_be_sent_is_refused_by_name(signature: Any, said: str) -> None:
    called = SimpleNamespace(callbacks=[signature], errbacks=None, chain=None, chord=None, root_id="a")
    with pytest.raises(InvalidRequest, match=said):
        linked_tasks(called, QUEUES)


REFUSED = {
    "a name with a line's end": (task("keep", queue="a\nb"), "queue: no name of a task or a queue"),
    "an exchange": (task("keep", exchange="elsewhere"), "options.exchange"),
    "another serializer": (task("keep", serializer="pickle"), "options: serializer: only json is passed on"),
    "headers that are none": (task("keep", headers=[1]), "options: headers: not an object"),
}


@pytest.mark.parametrize(("signature", "said"), REFUSED.values(), ids=REFUSED)
def test_a_signature_that_cannot_be_carried_is_refused_alone(
    message: Message, signature: Any, said: str
) -> None:
    following = linked_tasks(message(ASK, link=[signature, task("log")]), QUEUES)

    assert names(following.linked) == [("log", "shop", "answer")]
    (refused,) = following.refused
    assert refused.startswith(f"link: keep is not sent: {said}")


def test_headers_eta_retry_and_serializer_of_a_signature_are_carried(message: Message) -> None:
    at = datetime(2030, 1, 2, tzinfo=UTC)
    signature = task("keep", headers={"tenant": "b"}, eta=at, retry=True, retry_policy={}, serializer="json")
    (linked,) = linked_tasks(message(ASK, link=signature), QUEUES).linked

    assert linked.options["headers"] == {"tenant": "b"}
    assert str(linked.options["eta"]).startswith("2030-01-02")
    assert "retry" not in linked.options


@pytest.mark.parametrize("name", ["größe berechnen", "a.b", "my queue", "очередь"])
def test_a_queue_and_a_task_may_have_any_name_that_celery_takes(message: Message, name: str) -> None:
    linked = linked_tasks(message(ASK, link=task(name, queue=name)), (name,)).linked
    assert names(linked) == [(name, name, "answer")]


def test_the_headers_of_the_callers_own_are_carried_and_those_of_celery_are_not(message: Message) -> None:
    own = {"tenant": "a", "baggage": "x" * 9_000}
    called = message(ASK, link=task("keep"), headers={**own, "task": "evil", "id": "1", "lang": "py"})
    assert linked_tasks(called, QUEUES).headers == own

    called.headers = {"baggage": "x" * 20_000}
    following = linked_tasks(called, QUEUES)
    assert (following.headers, len(following.linked)) == ({}, 1)
    assert following.refused == ("headers are not passed on: request: more than 16,384 bytes of JSON",)
