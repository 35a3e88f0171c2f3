"""Equal questions: answered from the cache, or by the one that is being answered already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

import pytest
from chorale_client import Answer, Chorale, make_request
from chorale_client.keys import GENERATION, entry_key
from chorale_client.tenants import owned

from ledger.protocol import Started
from models.envelope import Envelope
from tasks.request.retrieve import submit
from tests.support.ledger.single_steps import SingleSteps
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


@pytest.fixture
def client(pipeline: RunningPipeline) -> Chorale:
    return pipeline.client()


def new_text() -> str:
    """A question that no other test asks."""
    return f"bread {uuid4().hex}"


def ask(client: Chorale, text: str | Sequence[str], **options: Any) -> Answer:
    return client.retrieve(text, **{"timeout_s": 20, **options})


def kept(pipeline: RunningPipeline) -> set[bytes]:
    """What is cached of all that was answered: the fusion worker does that before it takes up another question."""
    ask(pipeline.client(), "bread", cache="bypass")
    return set(cast("list[bytes]", pipeline.redis.keys("chorale:cache:answer:default:*")))


def retrieve_and_keep(pipeline: RunningPipeline, client: Chorale, text: str) -> Answer:
    before = kept(pipeline)
    answer = ask(client, text)
    assert kept(pipeline) != before
    return answer


def send(pipeline: RunningPipeline, text: str, **options: Any) -> str:
    return submit(pipeline.resources, pipeline.app.fanout, make_request(text, **options))


def test_an_equal_question_is_answered_from_the_cache(pipeline: RunningPipeline, client: Chorale) -> None:
    text = new_text()
    first = retrieve_and_keep(pipeline, client, text)
    second = ask(client, f"  {text} ")
    assert (first.cached, second.cached, second.status) == (False, True, "complete")
    assert second.hits == first.hits
    assert second.request_id != first.request_id


def test_an_equal_question_with_other_options_is_not_answered_from_the_cache(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    text = new_text()
    retrieve_and_keep(pipeline, client, text)
    assert not ask(client, text, top_k=3).cached
    assert not ask(client, text, filters={"year": 2020}).cached
    assert not ask(client, text, configuration="rrf-two").cached


def test_a_cached_answer_is_never_given_in_another_namespace(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    text = new_text()
    pipeline.index({"theirs": ("Bread of theirs", f"This is their {text}.")}, namespace="theirs")
    retrieve_and_keep(pipeline, client, text)
    answer = ask(client, text, namespace="theirs")
    assert (answer.cached, [hit.document_id for hit in answer.hits]) == (False, ["theirs"])


def test_a_cached_answer_is_never_given_to_another_tenant(pipeline: RunningPipeline, client: Chorale) -> None:
    text, before = new_text(), kept(pipeline)
    ask(client, text, request_id=owned("acme", uuid4().hex))
    assert kept(pipeline) != before
    assert not ask(client, text, request_id=owned("zenith", uuid4().hex)).cached
    assert ask(client, text, request_id=owned("acme", uuid4().hex)).cached


def test_cache_bypass_neither_reads_nor_stores_and_cache_refresh_only_stores(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    text = new_text()
    before = kept(pipeline)
    ask(client, text, cache="bypass")
    assert kept(pipeline) == before
    assert not ask(client, text, cache="refresh").cached
    assert kept(pipeline) != before
    assert not ask(client, text, cache="refresh").cached
    assert ask(client, text).cached


def test_cached_answers_are_not_used_after_the_corpus_has_a_new_generation(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    text = new_text()
    retrieve_and_keep(pipeline, client, text)
    pipeline.index({"fresh": ("Fresh bread", f"Fresh: {text}")})
    answer = ask(client, text)
    assert (answer.cached, answer.hits[0].document_id) == (False, "fresh")


def test_an_answer_is_not_cached_if_the_generation_rose_during_the_search(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    text, before = new_text(), kept(pipeline)
    pipeline.pause("chorale.vector")
    try:
        request_id = send(pipeline, text, timeout_s=30)
        pipeline.index({"meanwhile": ("Meanwhile", f"Indexed while somebody asks for {text}.")})
    finally:
        pipeline.resume("chorale.vector")
    assert client.answer(request_id, wait_s=30).status == "complete"
    assert kept(pipeline) == before


def test_an_answer_is_not_used_if_the_generation_rose_after_its_search(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    text = new_text()
    pipeline.pause("chorale.fusion")
    try:
        request_id = send(pipeline, text, timeout_s=30)
        until(lambda: pipeline.redis.hget(entry_key(request_id), "left") == b"0")
        pipeline.index({"after": ("After", f"Indexed when all branches had searched for {text}.")})
    finally:
        pipeline.resume("chorale.fusion")
    first = client.answer(request_id, wait_s=30)
    again = ask(client, text)

    assert first.status == "complete"
    assert "after" not in [hit.document_id for hit in first.hits]
    assert not again.cached
    assert "after" in [hit.document_id for hit in again.hits]


def test_an_answer_is_not_cached_if_a_branch_searched_another_generation(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    """As with a store that lags behind: the plan and the end agree, and one branch saw something else."""
    # Once the planner has seen that Redis is right it goes by Redis alone.
    retrieve_and_keep(pipeline, client, new_text())
    text, before = new_text(), kept(pipeline)
    generation = pipeline.redis.get(GENERATION + "default")
    pipeline.redis.set(GENERATION + "default", 999_999)
    try:
        assert ask(client, text).status == "complete"
        assert kept(pipeline) == before
    finally:
        pipeline.redis.set(GENERATION + "default", generation or b"")


def test_a_degraded_answer_is_never_cached(pipeline: RunningPipeline, client: Chorale) -> None:
    text, before = new_text(), kept(pipeline)
    pipeline.pause("chorale.vector")
    try:
        assert ask(client, text, timeout_s=1.5).status == "degraded"
    finally:
        pipeline.resume("chorale.vector")
    assert kept(pipeline) == before


def test_a_request_is_answered_without_the_cache_if_redis_has_no_generation(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    text = new_text()
    retrieve_and_keep(pipeline, client, text)
    generation = pipeline.redis.get(GENERATION + "default")
    assert generation
    pipeline.redis.delete(GENERATION + "default")
    try:
        answer = ask(client, text)
    finally:
        pipeline.redis.set(GENERATION + "default", generation)
    assert (answer.status, answer.cached) == ("complete", False)


def test_only_the_uncached_questions_of_a_list_are_searched(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    known, unknown = new_text(), new_text()
    first = retrieve_and_keep(pipeline, client, known)
    answer = ask(client, [known, unknown])
    assert answer.questions[0].hits == first.hits
    assert [question.status for question in answer.questions] == ["complete", "complete"]
    searched = [line.n_in for line in answer.stages if line.stage == "search.bm25"]
    assert searched == [1]
    assert not answer.cached, "not all of it came from the cache"


def test_equal_questions_in_flight_are_searched_once(pipeline: RunningPipeline, client: Chorale) -> None:
    text = new_text()
    pipeline.pause("chorale.vector")
    try:
        leader = send(pipeline, text, timeout_s=30)
        follower = send(pipeline, text, timeout_s=30, correlation_id="mine")
        assert pipeline.redis.hget(entry_key(leader), "state") == b"planned"
        assert pipeline.redis.hget(entry_key(follower), "state") == b"following"
    finally:
        pipeline.resume("chorale.vector")
    first, second = client.answer(leader, wait_s=30), client.answer(follower, wait_s=30)
    assert (first.request_id, second.request_id) == (leader, follower)
    assert second.correlation_id == "mine"
    assert (second.status, second.hits) == ("complete", first.hits)


def test_a_search_never_follows_one_of_another_tenant(pipeline: RunningPipeline, client: Chorale) -> None:
    text = new_text()
    pipeline.pause("chorale.vector")
    try:
        first, other, of_nobody, second = (
            send(
                pipeline, text, timeout_s=30, **({"request_id": owned(tenant, uuid4().hex)} if tenant else {})
            )
            for tenant in ("acme", "zenith", None, "acme")
        )
        states = [pipeline.redis.hget(entry_key(one), "state") for one in (first, other, of_nobody, second)]
        assert states == [b"planned", b"planned", b"planned", b"following"]
    finally:
        pipeline.resume("chorale.vector")
    assert client.answer(second, wait_s=30).status == "complete"


def test_a_request_never_follows_a_leader_with_a_later_deadline(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    text = new_text()
    pipeline.pause("chorale.vector")
    try:
        patient = send(pipeline, text, timeout_s=30)
        hasty = send(pipeline, text, timeout_s=1.5)
        assert pipeline.redis.hget(entry_key(hasty), "state") == b"planned"
        assert client.answer(hasty, wait_s=30).status == "degraded"
    finally:
        pipeline.resume("chorale.vector")
    assert client.answer(patient, wait_s=30).status == "complete"


def test_a_follower_of_a_degraded_leader_searches_itself_only_if_it_has_time_left(
    pipeline: RunningPipeline, client: Chorale
) -> None:
    text = new_text()
    pipeline.pause("chorale.vector")
    try:
        leader = send(pipeline, text, timeout_s=1.5)
        hasty = send(pipeline, text, timeout_s=1.7)
        patient = send(pipeline, text, timeout_s=30)
        assert pipeline.redis.hget(entry_key(patient), "leader") == leader.encode()
        first, second = client.answer(leader, wait_s=30), client.answer(hasty, wait_s=30)
    finally:
        pipeline.resume("chorale.vector")
    assert (first.status, second.status) == ("degraded", "degraded")
    assert second.degraded == first.degraded
    assert client.answer(patient, wait_s=30).status == "complete"


def test_a_failed_part_is_replaced_by_a_later_answer_of_the_same_branch(pipeline: RunningPipeline) -> None:
    ledger = SingleSteps(pipeline.redis, signer=pipeline.resources.signer)
    pipeline.pause("chorale.vector")
    try:
        request_id = send(pipeline, new_text(), timeout_s=30, cache="bypass")
        assert isinstance(ledger.start(request_id, "vector"), Started)
        pipeline.pause("chorale.fusion")
        ledger.report(request_id, "vector", Envelope.failed("vector", "error", "the first attempt"))
        assert ledger.report(request_id, "vector", Envelope("vector", "empty")) == "replaced"
        assert ledger.report(request_id, "vector", Envelope.failed("vector", "error")) == "duplicate"
    finally:
        pipeline.resume("chorale.fusion")
        pipeline.resume("chorale.vector")
    assert pipeline.client().answer(request_id, wait_s=30).status == "complete"
