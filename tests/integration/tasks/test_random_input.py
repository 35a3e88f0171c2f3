"""Random entries, messages and answers of branches: each request ends, and each error has a name."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import Ignore
from chorale_client import make_request
from chorale_client.keys import INDEXED, WAKEUPS, entry_key
from chorale_client.wire_names import TASK_DELETE, TASK_INDEX, TASK_RETRIEVE
from hypothesis import strategies as st
from redis import Redis

from config.settings import Settings
from ledger.protocol import Action, Started
from models.branch_result import BranchResult
from models.documents import Manifest
from models.errors import StageFailure
from models.hits import Hit, Ranking
from tasks.celery_internals.result_backend import id_of_task
from tasks.indexing import index_tasks
from tasks.registration import make_app
from tasks.request import finishing, search
from tasks.request.batch import answer_parts, fuse_task
from tasks.request.retrieve import plan_accepted, submit
from tasks.request.search import Part
from tasks.sweeping import sweeper
from tasks.sweeping.sweeper import Sweeper
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.integration.ledger.test_forged_entries import SOUND
from tests.support.attacks.random_input import (
    FEW,
    JSON,
    MANY,
    NUMBERS,
    REQUESTS,
    TEXT,
    some_of,
    with_random,
)
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.servers.redis_server import RedisServer

few_and_many = pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.long)])

SIGNATURES = st.lists(
    JSON
    | some_of(
        dict.fromkeys(("task", "options", "kwargs", "args", "subtask_type", "immutable"), JSON)
        | {"task": TEXT, "options": some_of({"queue": st.just("told"), "link": JSON, "priority": JSON})}
    ),
    max_size=2,
)
RETRIEVE = st.tuples(
    st.none() | TEXT,
    some_of({"request": REQUESTS | JSON, "request_id": TEXT | JSON, "v": JSON, "more": JSON}),
    some_of(
        {"callbacks": SIGNATURES, "errbacks": SIGNATURES, "chain": SIGNATURES, "chord": JSON, "root_id": JSON}
    ),
)
DOCUMENTS = st.lists(JSON | some_of({"id": TEXT, "title": JSON, "text": TEXT, "metadata": JSON}), max_size=3)
INDEX = some_of(
    {
        "namespace": st.just("docs") | JSON,
        "documents": DOCUMENTS | JSON,
        "ids": JSON,
        "whole_namespace": JSON,
        "source": TEXT | JSON,
        "v": st.just(1) | JSON,
        "handed_in": NUMBERS | JSON,
        "more": JSON,
    },
    max_size=6,
)
RAW = st.one_of(st.binary(max_size=20), st.integers().map(str), JSON.map(json.dumps))
OF_A_BRANCH = ("result:bm25", "mac:bm25", "status:bm25", "started:bm25", "lease:bm25", "hedge:bm25")
OTHER_FIELDS = ("leader", "coalescing_key", "mac", "followed", "decided", "fusing_until", "fuse_sent", "�")
ENTRIES = some_of(
    dict.fromkeys(
        (*SOUND, *OTHER_FIELDS, *OF_A_BRANCH),
        RAW,
    )
    | {"state": st.sampled_from(["accepted", "planned", "following", "fusing"]) | RAW}
)
HITS = st.lists(st.builds(Hit, TEXT | JSON, TEXT | JSON, NUMBERS | JSON, JSON, JSON) | JSON, max_size=3).map(
    tuple
)
RANKINGS = st.builds(Ranking, HITS | JSON, JSON, st.lists(JSON, max_size=2) | JSON, known_words=JSON)
SEARCH_OUTCOMES = (
    st.lists(RANKINGS, max_size=2) | JSON | st.builds(StageFailure, TEXT) | st.builds(ValueError, TEXT)
)
WIRE = RAW | some_of(
    dict.fromkeys(("status", "reason", "detail", "rankings", "ms", "stages", "generation", "degraded"), JSON)
).map(json.dumps)


@pytest.fixture
def app(
    redis_client: Redis, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Celery:
    monkeypatch.setattr(Resources, "fingerprints", {"embedder": "none"})
    monkeypatch.setattr(index_tasks, "PATIENCE_S", 0.0)
    monkeypatch.setattr(index_tasks, "PAUSE_S", 0.0)
    for module in (finishing, search, sweeper):
        monkeypatch.setattr(module.log, "exception", no_name)
    settings = Settings(home=tmp_path, embedder="none", on_end_queues=("told",), breaker_failures=0)
    resources = Resources(settings, load_pipeline(), redis_server.url)
    use_embedder(resources, HashingEmbedder())
    resources.writing_store.create("default", Manifest("none", "en", "none", "none", 1))
    resources.generations.publish("default", 1)
    resources.generations.agreed["default"] = 1
    return make_app(resources)


def no_name(event: str, **_: object) -> None:
    """Stands in the place of `log.exception`, which logs errors that nobody expected."""
    raise AssertionError(event) from sys.exception()


def do(app: Celery, task: str, kwargs: Mapping[str, Any], **message: Any) -> None:
    """As a worker does a message."""
    registered = app.tasks[task]
    registered.push_request(args=[], kwargs=kwargs, **message)
    try:
        with suppress(Ignore):
            registered.run(**kwargs)
    finally:
        registered.pop_request()


def planned(app: Celery) -> str:
    """The id of a request that is planned, whose time is not over however slow the machine is."""
    request = make_request("bread", branches=["bm25"], cache="bypass", timeout_s=60)
    return submit(app.resources, app.fanout, request)


def is_known(app: Celery, request_id: str) -> bool:
    """Whether the request has ended, or is in flight and will end."""
    callers = app.resources.callers_ledger
    return bool(callers.result(request_id) or callers.state(request_id))


def is_id(value: object) -> bool:
    """Whether it can be the id of a request."""
    return isinstance(value, str) and id_of_task(value) == value


@few_and_many
def test_a_message_with_a_request_ends_under_its_id_or_the_message_s(app: Celery, examples: int) -> None:
    def check(sent: tuple[str | None, dict[str, Any], dict[str, Any]]) -> None:
        message_id, kwargs, embedded = sent
        own_id = uuid.uuid4().hex if message_id is None else message_id
        do(app, TASK_RETRIEVE, kwargs, id=own_id, **embedded)
        request = kwargs.get("request")
        if request is not None or not is_id(kwargs.get("request_id")):
            fields = dict(request) if isinstance(request, dict) else {}
            request_id = fields.get("request_id", kwargs.get("request_id") or own_id)
            assert is_known(app, request_id if is_id(request_id) else id_of_task(own_id))

    with_random(RETRIEVE, check, examples)


def test_half_a_character_for_a_linked_task_ends_the_request_with_the_reason(app: Celery) -> None:
    linked = [{"task": "t", "queue": "told", "args": ["\ud800"]}]
    do(app, TASK_RETRIEVE, {"request": {"questions": ["bread"], "linked": linked}}, id="half")
    assert b"linked.0.args: not JSON: " in (app.resources.callers_ledger.result("half") or b"")


@few_and_many
@pytest.mark.parametrize("task", [TASK_INDEX, TASK_DELETE])
def test_a_message_with_documents_has_an_outcome(app: Celery, task: str, examples: int) -> None:
    def check(kwargs: dict[str, Any]) -> None:
        own_id = uuid.uuid4().hex
        do(app, task, kwargs, id=own_id)
        assert app.resources.redis.exists(INDEXED + own_id)

    with_random(INDEX, check, examples)


@few_and_many
def test_an_entry_is_swept_and_worked_on_without_harm(app: Celery, examples: int) -> None:
    resources, fanout = app.resources, app.fanout
    sweeping = Sweeper(resources, fanout, interval_s=1)

    def check(fields: dict[str, Any]) -> None:
        request_id = planned(app)
        raw: Any = {name.encode(errors="surrogatepass"): value for name, value in fields.items()}
        if raw:
            resources.redis.hset(entry_key(request_id), mapping=raw)
        resources.redis.zadd(WAKEUPS, {request_id: 0})
        started = resources.ledger.start(request_id, "bm25")
        if started is not None:
            answer_parts(resources, [Part(request_id, "bm25", started)])
        resources.ledger.report_all([(request_id, BranchResult("bm25", "ok"), started, b"")])
        plan_accepted(resources, fanout, request_id)
        fuse_task(SimpleNamespace(app=SimpleNamespace(resources=resources)), request_id)
        sweeping.tick()
        other = resources.callers_ledger.accept(make_request("bread", timeout_s=60)).request_id
        resources.redis.zadd(WAKEUPS, {other: 1})
        sweep = resources.ledger.sweep(sweeping.name)
        assert Action("retrieve", other) in sweep.actions
        resources.redis.delete(WAKEUPS)

    with_random(ENTRIES, check, examples)


@few_and_many
def test_whatever_a_branch_finds_its_request_ends(
    app: Celery, monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    resources = app.resources

    def check(outcome: Any) -> None:
        def finds(*_: object) -> Any:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(search, "_rankings", finds)
        request_id = planned(app)
        started = resources.ledger.start(request_id, "bm25")
        assert started is not None
        ends(app, request_id, started, *answer_parts(resources, [Part(request_id, "bm25", started)]))

    monkeypatch.setattr(
        search.log, "exception", lambda event, **_: None
    )  # what a package's branch raises has no name
    with_random(SEARCH_OUTCOMES, check, examples)


@few_and_many
def test_whatever_an_answer_of_a_branch_says_its_request_ends(
    app: Celery, monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    """Only a worker can have signed it, perhaps one of another version: it ends as failed."""
    monkeypatch.setattr(finishing.log, "exception", lambda event, **_: None)

    def check(wire: bytes | str) -> None:
        request_id = planned(app)
        started = app.resources.ledger.start(request_id, "bm25")
        assert started is not None
        answer: Any = SimpleNamespace(branch="bm25", status="ok", attempt=1, to_wire=lambda: wire)
        ends(app, request_id, started, answer)

    check(json.dumps({"status": "ok", "generation": [1]}).encode())
    with_random(
        WIRE.map(lambda text: text.encode(errors="surrogatepass") if isinstance(text, str) else text),
        check,
        examples,
    )


def ends(app: Celery, request_id: str, started: Started, answer: BranchResult) -> None:
    app.resources.ledger.report_all([(request_id, answer, started, b"")])
    fuse_task(SimpleNamespace(app=app), request_id)
    assert app.resources.callers_ledger.result(request_id) is not None
