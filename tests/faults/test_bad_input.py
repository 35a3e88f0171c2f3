"""Wrong requests at every entrance: the error names the field, nothing is enqueued, no worker ends, nobody waits."""

from __future__ import annotations

import math
import os
import uuid
from typing import Any

import pytest
from celery.result import AsyncResult
from chorale_client import Answer, InvalidRequest
from chorale_client.keys import ENTRY, OUTBOX, result_key
from chorale_client.wire_names import QUEUE_RETRIEVE, TASK_RETRIEVE

from tests.support.faults.observers import audited
from tests.support.pipelines.branch_faults import PRELOAD
from tests.support.pipelines.forked_children import run_module
from tests.support.pipelines.pipeline import RunningPipeline

DEEP = 10_000


def nested(levels: int) -> Any:
    value: Any = 2024
    for _ in range(levels):
        value = {"not": value}
    return value


OPTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "no time at all": ({"timeout_s": 0}, ("timeout_s: ", "greater than or equal to 0.05")),
    "a time that is no number": ({"timeout_s": math.nan}, ("timeout_s: ", "finite number")),
    "an id too long": ({"request_id": "a" * 129}, ("request_id: an id is 1-128 letters",)),
    "a deep filter": ({"filters": {"year": nested(DEEP)}}, ("filters: ", "'year': nested deeper than 8")),
    "a filter that JSON holds": ({"filters": {"year": nested(100)}}, ("filters: ", "nested deeper than 8")),
    "half a character": ({"filters": {"year": "\ud800"}}, ("filters: ", "'year'", "lone surrogate")),
    "a filter that is no number": (
        {"filters": {"year": {"gte": math.nan}}},
        ("filters: filter 'year': gte takes a finite number", "not nan"),
    ),
    "too many candidates": (
        {"questions": ["bread"] * 64, "top_k": 1_000, "include": ["texts"]},
        ("depth: 64 questions x an effective depth of 1000 is 64,000", "at most 20,000 are allowed"),
    ),
}
"""Wrong options, each with words that the error must contain."""

AS_JSON = {name: case for name, case in OPTIONS.items() if name not in ("a deep filter", "half a character")}
"""The wrong options that Celery can send as JSON."""


def enqueued(pipeline: RunningPipeline) -> tuple[object, ...]:
    """Returns the number of requests in flight and of messages on the queue, and the id of the last outbox entry."""
    client = pipeline.redis
    outbox: Any = client.xinfo_stream(OUTBOX) if client.exists(OUTBOX) else {}
    in_flight = len(list(client.scan_iter(f"{ENTRY}*")))
    return in_flight, client.llen(QUEUE_RETRIEVE), outbox.get("last-generated-id")


@pytest.mark.parametrize(("options", "said"), OPTIONS.values(), ids=OPTIONS)
def test_the_client_refuses_a_wrong_option_and_sends_nothing(
    faulty: RunningPipeline, options: dict[str, Any], said: tuple[str, ...]
) -> None:
    before = enqueued(faulty)
    client = faulty.client()
    for entrance in (client.retrieve, client.send):
        with pytest.raises(InvalidRequest) as error:
            entrance(**{"questions": "bread", **options})
        assert [words for words in said if words not in str(error.value)] == []
    assert enqueued(faulty) == before


def test_the_command_refuses_a_wrong_time_limit_and_sends_nothing(faulty: RunningPipeline) -> None:
    before = enqueued(faulty)
    words = ("cli", "search", "bread", "--options", '{"timeout_s": NaN}')
    environment = {**os.environ, **faulty.environment}
    ended = run_module(*words, environment=environment, timeout_s=60, preload=PRELOAD)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "timeout_s: Input should be" in ended.stderr
    assert enqueued(faulty) == before


def ended(pipeline: RunningPipeline, request_id: str, *, limit_s: float = 30) -> Answer:
    """Returns the answer that Celery gives for the id, after comparing it with the ledger's and with the audit."""
    answer = Answer.from_wire(AsyncResult(request_id, app=pipeline.app).get(timeout=limit_s))
    assert pipeline.client().answer(request_id) == answer
    assert audited(pipeline, request_id).status == answer.status
    return answer


@pytest.mark.parametrize(("options", "said"), AS_JSON.values(), ids=AS_JSON)
def test_a_wrong_request_sent_by_task_name_ends_at_once_with_the_reason(
    faulty: RunningPipeline, options: dict[str, Any], said: tuple[str, ...]
) -> None:
    wrong_id = "request_id" in options
    request_id = str(uuid.uuid4())
    request = {"questions": ["bread"], "request_id": request_id, **options}

    sent = faulty.app.send_task(TASK_RETRIEVE, kwargs={"request": request}, queue=QUEUE_RETRIEVE)
    # The task's id takes the place of an invalid one.
    answer = ended(faulty, sent.id if wrong_id else request_id)

    assert (answer.status, len(answer.questions)) == ("failed", len(request["questions"]))
    assert [(missing.where, missing.reason) for missing in answer.degraded] == [("plan", "not_configured")]
    assert [words for words in said if words not in answer.degraded[0].detail] == []


@pytest.mark.parametrize("request_", [5, [5], [["bread"]], {}, {"questions": {}}, [], {"question": "bread"}])
def test_a_message_without_a_valid_request_ends_under_the_id_that_it_has(
    faulty: RunningPipeline, request_: object
) -> None:
    request_id = str(uuid.uuid4())
    arguments = {"request_id": request_id, "request": request_}
    faulty.app.send_task(TASK_RETRIEVE, kwargs=arguments, queue=QUEUE_RETRIEVE)

    answer = ended(faulty, request_id)

    assert answer.status == "failed"
    assert "question" in answer.degraded[0].detail


def test_a_wrong_request_with_the_id_of_a_right_one_does_not_end_the_right_one(
    faulty: RunningPipeline,
) -> None:
    good = faulty.client().retrieve("bread", branches=["bm25"], cache="bypass", timeout_s=20)
    wrong = {"request_id": good.request_id, "questions": ["bread"], "timeout_s": -1}
    faulty.app.send_task(TASK_RETRIEVE, kwargs={"request": wrong}, queue=QUEUE_RETRIEVE)
    faulty.client().retrieve("bread", branches=["bm25"], cache="bypass", timeout_s=20)
    assert faulty.client().answer(good.request_id) == good


def test_an_answer_over_the_size_limit_has_its_hits_without_texts(faulty: RunningPipeline) -> None:
    """The limit here is 0.1 MB; 10 texts of 24,000 characters are 0.24 MB."""
    texts = {f"long-{place}": (f"Long {place}", f"bread {place} " + "lorem " * 4_000) for place in range(10)}
    faulty.index(texts, namespace="long")
    options: dict[str, Any] = {"namespace": "long", "branches": ["bm25"], "top_k": 10, "timeout_s": 20}
    client = faulty.client()
    fits = client.retrieve("bread", include=["ids", "snippets"], **options)
    assert fits.status == "complete"

    answer = client.retrieve("bread", include=["ids", "texts"], **options)

    assert (answer.status, answer.questions[0].status) == ("degraded", "degraded")
    (missing,) = answer.degraded
    assert (missing.where, missing.reason) == ("fetch", "budget")
    assert "10 hits as asked for have 0.2 MB; an answer may have 0.1 MB" in missing.detail
    assert [hit.document_id for hit in answer.hits] == [hit.document_id for hit in fits.hits]
    assert [hit.text for hit in answer.hits] == [None] * 10
    assert faulty.redis.strlen(result_key(answer.request_id)) < 20_000
    again = client.retrieve("bread", include=["ids", "texts"], **options)
    assert not again.cached, "an answer that lacks its texts is kept as a whole one"
