"""A Celery application without anything of ours asks by task name, with Redis and with RabbitMQ as the broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

import pytest
from sqlalchemy import func, select

from models.tables.audit import RequestRow
from records.database import open_database
from tests.acceptance.conftest import SETTINGS
from tests.support.code_blocks import code_blocks
from tests.support.pipelines.celery_application import CeleryApplication
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.redis_server import RedisServer, free_port
from tests.support.servers.services import need
from tests.support.waiting import until

QUEUES = ("chorale.retrieve", "chorale.bm25", "chorale.vector", "chorale.hyde", "chorale.fusion")
QUESTION = "Who pays for repairs?"
REQUEST = {"questions": [QUESTION], "timeout_s": 30}


class Both:
    """A running pipeline, and the user's application."""

    def __init__(
        self, pipeline: RunningPipeline, application: CeleryApplication, user: Mapping[str, str]
    ) -> None:
        self.pipeline = pipeline
        self.run = application.run
        self.printed = application.printed
        self.user = user
        """The addresses of broker and Redis."""

    def result(self, call: str, *, timeout_s: float = 60) -> dict[str, Any]:
        """Returns what `get` returns for the call, which is an expression."""
        answer: dict[str, Any] = self.run(f"found = ({call}).get(timeout={timeout_s})")
        return answer

    def got(self, task: str, about: str) -> Any:
        """Returns the arguments of the application's task, one of which contains `about`.  If it ran again, they are
        the same."""
        first, *others = until(lambda: self._runs(task, about), 60)
        assert [run for run in others if run != first] == []
        return first

    def _runs(self, task: str, about: str) -> list[Any]:
        runs: Any = self.pipeline.redis.lrange(f"got:{task}", 0, -1)
        return [json.loads(one) for one in runs if about.encode() in one]

    def audited(self, request_id: str) -> int:
        """Returns how often a request with this id is in the audit, once it is there."""
        engine = open_database(self.pipeline.resources.settings.audit_database_url)
        query = select(func.count()).where(RequestRow.request_id == request_id)

        def rows() -> int:
            with engine.connect() as connection:
                return connection.scalar(query) or 0

        count = until(rows)
        engine.dispose()
        return count


def ask(options: str = "", **fields: Any) -> str:
    """Returns the expression of a call."""
    return f"app.send_task('chorale.retrieve', args=[{ ({**REQUEST, **fields})!r}], {options})"


@pytest.fixture(scope="module", params=["redis", "rabbitmq"])
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    with ExitStack() as opened:
        if request.param == "redis":
            pipeline: RunningPipeline = request.getfixturevalue("pipeline")
            broker = pipeline.server.tcp_url
        else:
            broker = need("rabbitmq", "an application that asks through it is not tested")
            opened.enter_context(own_queues(broker, (*QUEUES, "shop", "reports")))
            server = opened.enter_context(RedisServer(port=free_port()))
            settings = {**SETTINGS, "CHORALE_BROKER_URL": broker}
            pipeline = opened.enter_context(
                RunningPipeline(server, queues=[",".join(QUEUES)], sweeper=True, environment=settings)
            )
            pipeline.index()
            pipeline.index(namespace="docs")
        user = {"BROKER_URL": broker, "REDIS_URL": pipeline.server.tcp_url}
        application = opened.enter_context(CeleryApplication(user))
        application.run("from application import *; from celery import chain, chord")
        yield Both(pipeline, application, user)


CALLS = {
    "a string": f"args=[{QUESTION!r}]",
    "a list of questions": f"args=[[{QUESTION!r}]]",
    "a request": f"args=[{{'questions': [{QUESTION!r}], 'timeout_s': 30}}]",
    "a request by keyword": f"kwargs={{'request': {{'questions': [{QUESTION!r}], 'timeout_s': 30}}}}",
}


@pytest.mark.parametrize("arguments", CALLS.values(), ids=CALLS)
def test_a_bare_call_returns_the_answer_under_the_task_s_own_id(both: Both, arguments: str) -> None:
    task_id = str(uuid.uuid4())
    answer = both.result(f"app.send_task('chorale.retrieve', task_id={task_id!r}, {arguments})")

    assert answer["request_id"] == task_id
    # A question alone has 2 s, in which a busy machine may miss a branch.
    assert answer["status"] in ("complete", "degraded")
    assert answer["questions"][0]["hits"][0]["document_id"] == "repairs"


def test_a_task_id_that_cannot_be_a_request_s_is_replaced_by_one_derived_from_it(both: Both) -> None:
    task_id = f"shop/{uuid.uuid4()}"
    both.run(f"app.send_task('chorale.retrieve', task_id={task_id!r}, args=[{REQUEST!r}])")

    own_id = uuid.uuid5(uuid.NAMESPACE_OID, task_id)
    assert both.result(f"app.AsyncResult('{own_id}')")["status"] == "complete"


def test_a_call_that_is_delivered_twice_is_one_request(both: Both) -> None:
    task_id = str(uuid.uuid4())
    for _ in range(2):
        both.run(ask(f"task_id={task_id!r}, link=keep.s()", cache="bypass"))
    answer = both.result(f"app.AsyncResult({task_id!r})")
    both.result(ask())  # the second message has been worked on

    assert both.got("keep", task_id) == [answer]
    assert both.audited(task_id) == 1


WRONG = {
    "nothing": ("", "questions: Field required"),
    "an option beside the request": (f"args=[{QUESTION!r}], kwargs={{'top_k': 3}}", "top_k: not an argument"),
    "two requests": (f"args=[{QUESTION!r}, {QUESTION!r}]", "takes one argument, the request; not 2"),
    "a wrong option": (f"args=[{{'questions': [{QUESTION!r}], 'top_k': 0}}]", "top_k: Input should be"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_call_has_an_answer_that_says_what_is_wrong(both: Both, arguments: str, said: str) -> None:
    answer = both.result(f"app.send_task('chorale.retrieve', {arguments})")

    assert answer["status"] == "failed"
    assert said in answer["degraded"][0]["detail"]


@pytest.mark.parametrize("options", ["countdown=2", "expires=-1"])
def test_a_message_that_celery_drops_is_a_cancelled_request_of_one_state(both: Both, options: str) -> None:
    """A worker of the application hears of `revoke()` as well, and writes the state REVOKED."""
    task_id = str(uuid.uuid4())
    both.run(ask(f"task_id={task_id!r}, {options}") + (".revoke()" if "countdown" in options else ""))
    assert both.audited(task_id) == 1

    result_expression = f"app.AsyncResult({task_id!r})"
    state, result = both.run(f"found = [{result_expression}.state, str({result_expression}.result)]")
    assert (state, result) == ("REVOKED", "revoked") or (state == "SUCCESS" and "'cancelled'" in result)


# Tasks of the application that come after a request


def test_a_task_is_sent_after_an_answer_and_after_the_same_one_from_the_cache(both: Both) -> None:
    on_end = {"task": "shop.ended", "queue": "shop"}
    with closing(both.pipeline.client()) as client:
        for _ in range(2):
            answer = client.retrieve(QUESTION, namespace="default", timeout_s=20, on_end=on_end)
            assert both.got("ended", answer.request_id) == [answer.request_id, "complete"]


def test_a_link_that_cannot_be_carried_is_named_in_the_answer_and_costs_the_request_nothing(
    both: Both,
) -> None:
    refused = "keep.s().set(exchange='elsewhere')"
    answer = both.result(ask(f"link=[{refused}, keep.s().set(headers={{'tenant': 'a'}}, retry=True)]"))

    assert answer["status"] == "complete"
    (warning,) = answer["warnings"]
    assert warning.startswith("request: link: shop.keep is not sent: options.exchange")
    assert both.got("keep", answer["request_id"]) == [answer]


def test_a_task_is_sent_after_a_wrong_request_too(both: Both) -> None:
    on_end = {"task": "shop.ended", "queue": "shop"}
    answer = both.result(ask("link=keep.s(), link_error=failed", top_k=0, on_end=on_end))

    assert both.got("ended", answer["request_id"]) == [answer["request_id"], "failed"]
    assert both.got("keep", answer["request_id"]) == [answer]
    assert both.got("failed", answer["request_id"]) == [answer["request_id"]]


def test_a_chain_goes_on_with_the_answer(both: Both) -> None:
    search = f"signature('chorale.retrieve', args=[{REQUEST!r}])"
    text: Any = both.result(f"chain({search}, keep.s().set(queue='shop'), length)()")

    assert text == len(f"{uuid.uuid4()} complete: Repairs")


def test_a_chain_may_begin_with_a_task_that_makes_the_request(both: Both) -> None:
    text: Any = both.result("chain(question, signature('chorale.retrieve'), keep.s())()")

    assert text.endswith(" complete: Repairs")


def test_a_task_that_needs_an_answer_begins_a_chain_and_does_not_wait(both: Both) -> None:
    last: Any = both.result(f"ask.delay({REQUEST!r})")
    text: Any = both.result(f"app.AsyncResult({last!r})")

    assert text.endswith(" complete: Repairs")


def test_only_queues_that_the_installation_allows_are_named(both: Both) -> None:
    said = "the queue 'elsewhere' is not in CHORALE_ON_END_QUEUES; there are: shop, reports"
    for call in (
        ask(on_end={"task": "shop.ended", "queue": "elsewhere"}),
        ask("link=keep.s().set(queue='elsewhere')"),
    ):
        answer = both.result(call)
        assert answer["status"] == "failed"
        assert said in answer["degraded"][0]["detail"]


def test_a_request_in_a_chord_is_refused(both: Both) -> None:
    search = f"signature('chorale.retrieve', args=[{QUESTION!r}], task_id={{!r}})"
    ids = [str(uuid.uuid4()) for _ in range(2)]
    chorded = f"chord([{', '.join(search.format(one) for one in ids)}])(keep.s())"
    waits = "try:\n    found = body.get(timeout=30)\nexcept Exception as error:\n    found = str(error)"
    assert "a request cannot be part of a chord" in both.run(f"body = {chorded}\n{waits}")

    for task_id in ids:
        answer = both.result(f"app.AsyncResult({task_id!r})")
        assert answer["degraded"][0]["detail"].startswith("chord: a request cannot be part of a chord")


# The example, and the page


def test_the_example_asks_the_namespace_of_the_page_and_prints_the_status_and_the_hits(both: Both) -> None:
    printed = both.printed("import runpy; runpy.run_module('application', run_name='__main__')")
    assert printed.startswith("complete []\n1 Repairs\n")


def test_the_blocks_of_the_page_run_one_after_the_other(both: Both) -> None:
    code = "\n".join(block.code for block in code_blocks("python") if block.page == "docs/guides/celery.md")
    for name, address in both.user.items():
        option = name.partition("_")[0].lower().replace("redis", "backend")
        code = code.replace(f"{option}=address", f"{option}={address!r}")
    assert "=address" not in code
    code = code.replace('address = os.environ["CHORALE_REDIS_URL"]', "")

    printed = both.printed(code.replace("timeout=3", "timeout=30")).splitlines()

    assert printed[0] == "1 Repairs"
    request_id = printed[-1].split()[0]
    assert both.got("keep", request_id)[0]["request_id"] == request_id
