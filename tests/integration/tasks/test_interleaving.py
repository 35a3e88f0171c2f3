"""A request whose page two configurations share: searched once, answered for itself alone, and replayed as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client import Answer
from chorale_client.keys import entry_key
from pydantic_core import from_json

from api.feedback import record
from evaluation.recorded.replay import replay
from records.audit.queries import show
from records.database import open_database
from records.judgements.feedback import Event
from tests.integration.tasks.answers import ids
from tests.support.command_line import in_process
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import INTERLEAVED

QUESTION = "Who pays for repairs?"


@pytest.fixture(scope="module")
def shared() -> Iterator[OneProcess]:
    with OneProcess.with_file(INTERLEAVED) as pipeline:
        pipeline.index()
        yield pipeline


def teams(answer: Answer) -> dict[str, list[str]]:
    (line,) = [line for line in answer.stages if line.stage == "interleave"]
    read: dict[str, list[str]] = from_json(line.detail or "")
    return read


def test_one_search_answers_for_both_configurations(shared: OneProcess) -> None:
    request_id = shared.submit(QUESTION, include=["ids", "metadata", "explanation"])
    queued = {queue: shared.redis.llen(queue) for queue in ("chorale.bm25", "chorale.vector", "chorale.hyde")}
    assert set(queued.values()) == {1}
    shared.work()
    answer = shared.answer(request_id)
    options = {"cache": "bypass", "top_k": 100}
    pages = {name: shared.ask(QUESTION, configuration=name, **options) for name in ("rrf", "scores")}
    assert answer.status == "complete"
    assert not any(line.stage == "interleave" for page in pages.values() for line in page.stages)
    credited = teams(answer)
    assert credited["A"]
    assert credited["B"]
    for hit in answer.hits:
        of = pages["scores" if hit.score_kind == "dbsf" else "rrf"]
        assert hit.score == next(each.score for each in of.hits if each.document_id == hit.document_id)
        assert hit.score == pytest.approx(
            sum(part.weight * part.normalised for part in hit.branches.values()), rel=1e-9
        )


def test_it_neither_reads_nor_writes_the_cache_and_nobody_waits_for_it(shared: OneProcess) -> None:
    cached = set(shared.redis.scan_iter("chorale:cache:answer:*"))
    first, second = shared.submit(QUESTION), shared.submit(QUESTION)
    assert [shared.redis.hget(entry_key(id_), "state") for id_ in (first, second)] == [b"planned"] * 2
    shared.work()
    assert not shared.answer(first).cached
    assert not shared.ask(QUESTION).cached
    assert set(shared.redis.scan_iter("chorale:cache:answer:*")) == cached
    # What is not shared still uses the cache.
    answers = [shared.ask(QUESTION, configuration="scores") for _ in range(2)]
    assert [answer.cached for answer in answers] == [False, True]


def test_a_request_that_a_worker_plans_is_shared_too(shared: OneProcess) -> None:
    client = shared.client()
    handle = client.submit(QUESTION, timeout_s=30)
    shared.work()
    answer = client.answer(handle.id)
    assert (answer.status, answer.questions[0].ordered_by) == ("complete", "interleaved")
    assert teams(answer)["B"]


def test_the_audit_trail_fuses_it_again_to_the_same_page(shared: OneProcess) -> None:
    answers = [shared.ask(QUESTION, request_id=f"again-{number}") for number in range(8)]
    shared.drain()
    engine = open_database(shared.resources.settings.audit_database_url)
    for answer in answers:
        row = show(engine, answer.request_id)
        assert row is not None
        replayed = replay(row, shared.resources.pipeline)
        assert replayed.is_equal
        assert [question.is_equal for question in replayed.questions] == [True]
        assert [hit.document_id for hit in replayed.questions[0].hits] == ids(answer)
        assert replayed.gaps == []
        anew = replay(row, shared.resources.pipeline, configuration="scores")
        alone = shared.ask(QUESTION, configuration="scores", cache="bypass")
        assert [hit.document_id for hit in anew.questions[0].hits] == ids(alone)
    engine.dispose()
    # Other coins, other pages.
    assert len({tuple(ids(answer)) for answer in answers}) > 1


def test_clicks_on_the_hits_of_a_team_say_which_configuration_is_better(shared: OneProcess) -> None:
    def compared(*arguments: str) -> str:
        called = in_process("compare", "--live", "rrf", "scores", *arguments, **shared.environment)
        assert called.returncode == 0, called.stderr
        return called.stdout

    answers = [shared.ask(QUESTION, request_id=f"clicked-{number}") for number in range(9)]
    shared.drain()
    before = from_json(compared("--json"))
    assert (before["wins"], before["e_value"], before["better"]) == ({"A": 0, "B": 0}, 1.0, None)
    engine = open_database(shared.resources.settings.audit_database_url)
    rows = {answer.request_id: row for answer in answers if (row := show(engine, answer.request_id))}
    events = []
    for number, answer in enumerate(answers):
        by_team = teams(answer)
        nobodys = [id_ for id_ in ids(answer) if id_ not in {*by_team["A"], *by_team["B"]}]
        for document in (by_team["A" if number == 0 else "B"][0], *nobodys):
            events.append(Event(request_id=answer.request_id, action="click", document_id=document))
    record(engine, events, rows, "shop", "user")
    engine.dispose()
    after = from_json(compared("--json"))
    assert (after["wins"], after["ties"], after["shared"]) == ({"A": 1, "B": 8}, 0, before["shared"])
    # 2^9 / (10 C(9, 1)) after eight wins and one loss.
    assert (after["e_value"], after["better"]) == (5.6889, None)
    assert "no decision yet: A won 1 requests, B 8, 0 are ties, e = 5.69; decided at 20" in compared()
