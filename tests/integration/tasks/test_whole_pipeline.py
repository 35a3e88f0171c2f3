"""One question through three queues, with real workers: what a user gets when nothing is wrong."""

from __future__ import annotations

import hashlib

import pytest
from celery.result import AsyncResult
from chorale_client import (
    Chorale,
    InvalidRequest,
    RequestIdConflict,
    ServiceUnavailable,
    UnknownRequest,
    make_request,
)
from chorale_client.keys import MOMENTS, SWEEPER, entry_key
from chorale_client.scripts import PRELUDE

from tasks.request.retrieve import submit
from tests.support.pipelines.pipeline import ROOT, RunningPipeline
from tests.support.waiting import until


@pytest.fixture
def client(pipeline: RunningPipeline) -> Chorale:
    return pipeline.client()


def test_a_question_is_answered_by_all_three_branches(client: Chorale) -> None:
    answer = client.retrieve("three months notice of a tenant", cache="bypass")

    assert answer.status == "complete"
    assert not answer.degraded
    assert answer.hits[0].document_id == "notice"
    assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}
    assert answer.hits[0].title == "Notice periods"
    assert {f"search.{name}" for name in ("bm25", "vector", "hyde")} <= {line.stage for line in answer.stages}


def test_an_equal_question_is_answered_from_the_cache(client: Chorale) -> None:
    """What is kept is written after the end was announced."""
    first = client.retrieve("who pays for which repairs?", timeout_s=20)
    again = until(
        lambda: (one := client.retrieve("who pays for which repairs?", timeout_s=20)).cached and one
    )
    assert again
    assert (first.cached, again.hits) == (False, first.hits)


def test_the_score_of_a_hit_follows_from_its_explanation(client: Chorale) -> None:
    answer = client.retrieve("ERR-4711", cache="bypass", include=["ids", "explanation"])

    weights = {"bm25": 0.3, "vector": 0.4, "hyde": 0.3}
    for hit in answer.hits:
        by_hand = sum(weights[name] / (60 + score.rank) for name, score in hit.branches.items())
        assert hit.score == pytest.approx(by_hand, rel=1e-9)


def test_with_scores_every_branch_scores_every_hit_and_the_hits_score_follows(client: Chorale) -> None:
    answer = client.retrieve(
        "ERR-4711", configuration="scores", cache="bypass", include=["ids", "metadata", "explanation"]
    )

    assert answer.status == "complete"
    assert [(line.stage, line.status) for line in answer.stages if line.stage == "score"] == [("score", "ok")]
    assert len(answer.hits) > 1
    for hit in answer.hits:
        assert set(hit.branches) == {"bm25", "vector", "hyde"}
        assert set(hit.found_by) == {name for name, said in hit.branches.items() if said.rank}
        by_hand = sum(said.weight * said.normalised for said in hit.branches.values())
        assert hit.score == pytest.approx(by_hand, rel=1e-9)
    # Only BM25 searches words: what has none of them gets 0.
    only_scored = [hit.branches["bm25"] for hit in answer.hits if "bm25" not in hit.found_by]
    assert only_scored
    assert all(said.score == 0 for said in only_scored)


def test_feedback_is_named_where_no_hypothesis_was_given(client: Chorale) -> None:
    answer = client.retrieve("who pays for repairs?", cache="bypass")
    assert [line.detail for line in answer.stages if line.stage == "hypothesis"] == ["feedback"]


def test_hypothetical_documents_of_the_caller_are_used_and_named(client: Chorale) -> None:
    question = {
        "text": "what to eat?",
        "hypothetical_document": "Bread of flour and water is baked in an oven.",
    }
    answer = client.retrieve(question, cache="bypass", branches=["hyde"])
    assert answer.hits[0].document_id == "bread"
    assert [line.detail for line in answer.stages if line.stage == "hypothesis"] == ["given"]


def test_async_result_agrees_before_and_after_the_end(pipeline: RunningPipeline) -> None:
    request = make_request("flour, water, salt and patience", cache="bypass")
    assert AsyncResult(request.request_id, app=pipeline.app).state == "PENDING"

    submit(pipeline.resources, pipeline.app.fanout, request)
    result = AsyncResult(request.request_id, app=pipeline.app)

    assert result.get(timeout=20)["questions"][0]["hits"][0]["document_id"] == "bread"
    assert result.state == "SUCCESS"


def test_celery_can_call_it_by_name_without_any_of_our_code(pipeline: RunningPipeline) -> None:
    sent = pipeline.app.send_task(
        "chorale.retrieve",
        kwargs={"request": {"questions": ["bread"], "request_id": "by-name-1", "cache": "bypass"}},
        queue="chorale.retrieve",
    )
    assert sent.id != "by-name-1"
    assert pipeline.client().answer("by-name-1", wait_s=20).status == "complete"


def test_a_caller_whose_broker_is_away_is_answered_all_the_same(pipeline: RunningPipeline) -> None:
    """The request is in the ledger: the sweeper sends what the caller could not."""
    client = Chorale(pipeline.server.url, broker_url="redis://127.0.0.1:1/0")
    assert client.retrieve("ERR-4711", cache="bypass", timeout_s=20).status == "complete"


def test_a_redis_that_is_away_is_reported() -> None:
    with pytest.raises(ServiceUnavailable, match="Redis does not answer"):
        Chorale("redis://127.0.0.1:1/0").retrieve("ERR-4711")


def test_several_questions_are_one_request(client: Chorale) -> None:
    answer = client.retrieve(["flour, water, salt and patience", "ERR-4711", "   "], cache="bypass")
    assert [question.status for question in answer.questions] == ["complete", "complete", "skipped"]
    assert [question.hits[0].document_id for question in answer.questions[:2]] == ["bread", "error"]
    assert answer.status == "complete"


def test_a_filter_holds_for_every_branch(client: Chorale, pipeline: RunningPipeline) -> None:
    pipeline.index({"old": ("Old bread", "Old bread is toasted.")}, namespace="filtered", year=1999)
    pipeline.index({"new": ("New bread", "New bread is eaten fresh.")}, namespace="filtered", year=2024)
    answer = client.retrieve("bread", namespace="filtered", filters={"year": {"gte": 2000}}, cache="bypass")
    assert [hit.document_id for hit in answer.hits] == ["new"]


def test_namespaces_never_see_each_other(client: Chorale, pipeline: RunningPipeline) -> None:
    pipeline.index({"secret": ("Bread of another tenant", "Bread is a secret here.")}, namespace="other")
    assert "secret" not in {hit.document_id for hit in client.retrieve("bread secret", cache="bypass").hits}
    assert [hit.document_id for hit in client.retrieve("bread", namespace="other", cache="bypass").hits] == [
        "secret"
    ]


def test_an_unknown_namespace_fails_and_says_why(client: Chorale) -> None:
    answer = client.retrieve("bread", namespace="nowhere")
    assert answer.status == "failed"
    assert {(one.where, one.reason) for one in answer.degraded} == {
        ("search.bm25", "bad_index"),
        ("search.vector", "bad_index"),
        ("search.hyde", "bad_index"),
    }
    # The worker's log and the command line say where it was looked for, and which namespaces are there.
    assert {one.detail for one in answer.degraded} == {"there is no namespace 'nowhere'"}


def test_a_name_that_the_pipeline_does_not_have_is_answered_with_those_it_has(client: Chorale) -> None:
    answer = client.retrieve("bread", branches=["bm52"])
    assert answer.status == "failed"
    assert answer.degraded[0].detail == "branches: no 'bm52'; there are: bm25, vector, hyde"


def test_a_request_that_needs_no_retrieval_is_skipped(client: Chorale) -> None:
    answer = client.retrieve("hello!", needs_retrieval=False)
    assert (answer.status, answer.hits, answer.degraded) == ("skipped", (), ())


def test_a_wrong_field_is_named_and_nothing_is_enqueued(client: Chorale, pipeline: RunningPipeline) -> None:
    before = pipeline.redis.dbsize()
    with pytest.raises(InvalidRequest, match="top_k: Input should be less than or equal to 1000"):
        client.retrieve("bread", top_k=1001)
    with pytest.raises(InvalidRequest, match="include: 'context' needs context_tokens"):
        client.retrieve("bread", include=["ids", "context"])
    assert pipeline.redis.dbsize() == before


def test_an_id_used_again_for_the_same_request_gives_its_answer(client: Chorale) -> None:
    first = client.retrieve("bread", request_id="again-1", cache="bypass")
    assert client.retrieve("bread", request_id="again-1", cache="bypass") == first
    with pytest.raises(RequestIdConflict, match="again-1"):
        client.retrieve("ERR-4711", request_id="again-1", cache="bypass")


def test_an_unknown_id_has_no_answer(client: Chorale) -> None:
    with pytest.raises(UnknownRequest, match="nothing is known of 'never-sent'"):
        client.answer("never-sent")


def test_nothing_but_the_answer_is_left_of_an_ended_request(
    client: Chorale, pipeline: RunningPipeline
) -> None:
    answer = client.retrieve("bread", cache="bypass")
    assert pipeline.redis.exists(entry_key(answer.request_id)) == 0
    assert pipeline.redis.zscore(MOMENTS, answer.request_id) is None
    assert 0 < pipeline.redis.ttl(f"celery-task-meta-{answer.request_id}") <= 600
    until(lambda: not pipeline.redis.xlen("chorale:outbox"))
    assert pipeline.redis.keys(f"*{answer.request_id}*") == [f"celery-task-meta-{answer.request_id}".encode()]


@pytest.mark.slow
def test_for_a_hundred_healthy_requests_the_chord_itself_called_the_callback(
    pipeline: RunningPipeline,
) -> None:
    client = pipeline.client()
    client.retrieve("warm", cache="bypass")
    pipeline.redis.config_resetstat()
    text = (ROOT / "ledger/scripts/call_fusion.lua").read_text(encoding="utf-8")
    call_fusion = hashlib.sha1(f"{PRELUDE}\n{text}".encode()).hexdigest()
    with pipeline.redis.monitor() as monitor:
        answers = [client.retrieve(f"bread {number}", cache="bypass") for number in range(100)]
        pipeline.redis.echo("end of the measurement")
        pushed, script = {"report": 0, "sweep": 0}, ""
        for seen in monitor.listen():
            if "end of the measurement" in seen["command"]:
                break
            # What a script does shows as `lua`, after its call.
            if seen["client_type"] != "lua":
                is_sweepers = SWEEPER in seen["command"] or call_fusion in seen["command"]
                script = "sweep" if is_sweepers else "report"
            elif seen["command"].startswith("LPUSH chorale.fusion"):
                pushed[script] += 1
    assert [answer.status for answer in answers] == ["complete"] * 100
    assert pushed == {"report": 100, "sweep": 0}
