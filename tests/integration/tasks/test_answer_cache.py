"""Equal questions: answered from the cache, or by the one that is being answered already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast
from uuid import uuid4

from chorale_client.keys import GENERATION, entry_key
from chorale_client.tenants import owned
from chorale_client.wire_names import QUEUE_FUSION

from models.branch_result import BranchResult
from tests.integration.tasks.answers import ids
from tests.support.pipelines.one_process import OneProcess

QUEUES_BUT_VECTOR = ("chorale.bm25", "chorale.hyde")


def new_text() -> str:
    """A question that no other test asks."""
    return f"bread {uuid4().hex}"


def state(here: OneProcess, request_id: str) -> bytes | None:
    return cast("bytes | None", here.redis.hget(entry_key(request_id), "state"))


def cached_keys(here: OneProcess) -> set[bytes]:
    """The keys of all cached answers."""
    return set(here.redis.scan_iter("chorale:cache:answer:*"))


@contextmanager
def nothing_cached(here: OneProcess) -> Iterator[None]:
    before = cached_keys(here)
    yield
    assert cached_keys(here) == before


@contextmanager
def generation_in_redis(here: OneProcess, generation: int | None) -> Iterator[None]:
    known = here.redis.getdel(GENERATION + "default")
    assert known
    if generation is not None:
        here.redis.set(GENERATION + "default", generation)
    yield
    here.redis.set(GENERATION + "default", known)


def test_an_equal_question_is_answered_from_the_cache(here: OneProcess) -> None:
    text = new_text()
    first, second = here.ask(text), here.ask(f"  {text} ")
    assert (first.cached, second.cached, second.status) == (False, True, "complete")
    assert second.hits == first.hits
    assert second.questions[0].text == f"  {text} "
    assert second.request_id != first.request_id


def test_a_cached_answer_is_never_given_in_another_namespace(here: OneProcess) -> None:
    text = new_text()
    here.index({"theirs": ("Bread of theirs", f"This is their {text}.")}, namespace="theirs")
    here.ask(text)
    answer = here.ask(text, namespace="theirs")
    assert (answer.cached, ids(answer)) == (False, ["theirs"])


def test_a_cached_answer_is_never_given_to_another_tenant(here: OneProcess) -> None:
    text = new_text()
    here.ask(text, request_id=owned("acme", uuid4().hex))
    assert not here.ask(text, request_id=owned("zenith", uuid4().hex)).cached
    assert here.ask(text, request_id=owned("acme", uuid4().hex)).cached


def test_cache_bypass_neither_reads_nor_stores_and_cache_refresh_only_stores(here: OneProcess) -> None:
    text = new_text()
    with nothing_cached(here):
        here.ask(text, cache="bypass")
    assert not here.ask(text, cache="refresh").cached
    assert not here.ask(text, cache="refresh").cached
    assert here.ask(text).cached


def test_cached_answers_are_not_used_after_the_corpus_has_a_new_generation(here: OneProcess) -> None:
    text = new_text()
    here.ask(text)
    here.index({"fresh": ("Fresh bread", f"Fresh: {text}")})
    answer = here.ask(text)
    assert (answer.cached, answer.hits[0].document_id) == (False, "fresh")


def test_an_answer_is_not_cached_if_the_generation_rose_during_the_search(here: OneProcess) -> None:
    text = new_text()
    with nothing_cached(here):
        request_id = here.submit(text)
        here.work(*QUEUES_BUT_VECTOR)
        here.index({"meanwhile": ("Meanwhile", f"Indexed while somebody asks for {text}.")})
        here.work()
        assert here.answer(request_id).status == "complete"


def test_an_answer_is_not_used_if_the_generation_rose_after_its_search(here: OneProcess) -> None:
    text = new_text()
    request_id = here.submit(text)
    here.work(*QUEUES_BUT_VECTOR)
    here.work("chorale.vector")
    here.index({"after": ("After", f"Indexed when all branches had searched for {text}.")})
    here.work(QUEUE_FUSION)
    first, again = here.answer(request_id), here.ask(text)
    assert first.status == "complete"
    assert "after" not in ids(first)
    assert not again.cached
    assert "after" in ids(again)


def test_an_answer_is_not_cached_if_a_branch_searched_another_generation(here: OneProcess) -> None:
    """As with a store that lags behind: the plan and the end agree, and one branch searched something else."""
    # Once the planner has seen that Redis is right it goes by Redis alone.
    here.ask(new_text())
    with generation_in_redis(here, 999_999), nothing_cached(here):
        assert here.ask(new_text()).status == "complete"


def test_a_degraded_answer_is_never_cached(here: OneProcess) -> None:
    with nothing_cached(here):
        request_id = here.submit(new_text())
        here.work(*QUEUES_BUT_VECTOR)
        assert here.end_late(request_id).status == "degraded"


def test_a_request_is_answered_without_the_cache_if_redis_has_no_generation(here: OneProcess) -> None:
    text = new_text()
    here.ask(text)
    with generation_in_redis(here, None):
        answer = here.ask(text)
    assert (answer.status, answer.cached) == ("complete", False)


def test_only_the_uncached_questions_of_a_list_are_searched(here: OneProcess) -> None:
    known, unknown = new_text(), new_text()
    first = here.ask(known)
    answer = here.ask([known, unknown])
    assert answer.questions[0].hits == first.hits
    assert [question.status for question in answer.questions] == ["complete", "complete"]
    assert [line.n_in for line in answer.stages if line.stage == "search.bm25"] == [1]
    assert not answer.cached, "not all of it came from the cache"


def test_equal_questions_in_flight_are_searched_once(here: OneProcess) -> None:
    text = new_text()
    leader = here.submit(text)
    follower = here.submit(text, timeout_s=40, correlation_id="mine")
    assert (state(here, leader), state(here, follower)) == (b"planned", b"following")
    here.work()
    first, second = here.answer(leader), here.answer(follower)
    assert (first.request_id, second.request_id) == (leader, follower)
    assert second.correlation_id == "mine"
    assert (second.status, second.hits) == ("complete", first.hits)


def test_a_search_never_follows_one_of_another_tenant(here: OneProcess) -> None:
    text = new_text()
    tenants = ("acme", "zenith", None, "acme")
    submitted = [
        here.submit(
            text, timeout_s=30 + place, request_id=owned(tenant, uuid4().hex) if tenant else uuid4().hex
        )
        for place, tenant in enumerate(tenants)
    ]
    assert [state(here, request_id) for request_id in submitted] == [
        b"planned",
        b"planned",
        b"planned",
        b"following",
    ]
    here.work()
    assert {here.answer(request_id).status for request_id in submitted} == {"complete"}


def test_a_follower_of_a_degraded_leader_searches_itself(here: OneProcess) -> None:
    """The contract of the ledger says what happens without time for it."""
    text = new_text()
    leader, follower = here.submit(text), here.submit(text, timeout_s=40)
    assert here.redis.hget(entry_key(follower), "leader") == leader.encode()
    started = here.resources.ledger.start(leader, "vector")
    here.resources.ledger.report_all([(leader, BranchResult.failed("vector", "error"), started, b"")])
    here.redis.delete("chorale.vector")
    here.work()
    assert here.answer(leader).status == "degraded"
    here.sweep()
    here.work()
    assert here.answer(follower).status == "complete"
