"""The answer on the wire; one over the limit keeps the order, the ids and the scores of its hits."""

from __future__ import annotations

from math import fsum, prod
from typing import Any

import pytest
from chorale_client.answer import Answer
from chorale_client.request import Request
from chorale_client.wire_names import Reason, Status
from pydantic_core import from_json

from fusion.answer import Pages, answer_fields, size_limited, worst
from fusion.branch_results import BranchAnswers, merged_notes
from models.boost_plan import BoostPlan
from models.branch_result import BranchResult, Degradation, StageNote
from models.documents import PassageText
from models.hits import Ranking
from models.plan import Plan
from tasks.wiring.pipeline import BUILT_IN
from tests.unit.fusion.builders import (
    answered,
    branch,
    branch_results,
    fuse_question,
    hit,
    plan,
    request,
    texts,
)

EXPLAINED = ("ids", "metadata", "snippets", "texts", "explanation")
THREE = branch_results(
    bm25=[hit("a", source_type="legge", content_hash="h"), hit("copy", content_hash="h"), hit("b")],
    vector=[hit("a", content_hash="h"), hit("b"), hit("c")],
    hyde=[hit("a", content_hash="h")],
)
TEXTS = texts("a", "b", "c", text="The notice period is three months.", language="en", topic="leases")


def fields(
    search: Request, planned: Plan | None = None, results: dict[str, BranchResult] | None = None, **rest: Any
) -> dict[str, Any]:
    planned, results = planned or plan(), THREE if results is None else results
    fused = {
        index: fuse_question(planned, results, position, search)
        for position, index in enumerate(planned.searched)
    }
    answers = BranchAnswers(search, planned, results, rest.pop("absent", {}))
    pages = Pages(fused, rest.pop("texts", TEXTS), rest.pop("stages", ()), rest.pop("degraded", ()))
    return answer_fields(answers, pages, **rest)


def read(built: dict[str, Any]) -> Answer:
    return Answer.from_wire(
        '{"request_id":"r1","correlation_id":null,"took_ms":12.5,'
        + size_limited(built, 10**9)[1].decode()[1:]
    )


def test_the_answer_reads_back_as_it_was_built() -> None:
    built = fields(request(include=EXPLAINED))
    answer = read(built)
    assert (answer.v, answer.request_id, answer.took_ms, answer.status) == (1, "r1", 12.5, "complete")
    assert [one.document_id for one in answer.hits] == ["a", "b", "c"]
    best, wire = answer.hits[0], built["questions"][0]["hits"][0]
    assert best.model_dump(mode="json", exclude_unset=True) == wire
    assert (best.title, best.source_type, best.language, best.metadata) == (
        "Title of a",
        "legge",
        "en",
        {"topic": "leases"},
    )
    assert best.snippet is not None
    assert [best.snippet.text[start:end] for start, end in best.snippet.highlights] == ["notice", "period"]
    assert [(one.document_id, one.why, one.similarity) for one in best.folded] == [
        ("copy", "exact_copy", 1.0)
    ]


def test_a_hit_shows_the_passage_of_its_document_that_answers_best() -> None:
    results = branch_results(bm25=[hit("a", 1)], vector=[hit("a", 0)], hyde=[hit("a", 0)])
    both = {
        f"a#{n}": PassageText(f"a#{n}", "a", "", "", text, {})
        for n, text in enumerate(["Of other things.", "The notice period is three months."])
    }
    best = read(fields(request(include=EXPLAINED), results=results, texts=both)).hits[0]
    assert (best.passage_id, best.text) == ("a#1", both["a#1"].text)
    assert best.snippet is not None
    assert best.snippet.text == best.text
    without = read(fields(request(include=["ids", "texts"]), results=results, texts=both)).hits[0]
    assert (without.passage_id, without.text) == ("a#0", both["a#0"].text)


@pytest.mark.parametrize("method", BUILT_IN.methods)
def test_every_score_can_be_computed_again_by_hand_from_the_answer(method: str) -> None:
    boosts = BoostPlan(authority={"legge": 1.3}, recency_amount=0.5, max_places=0)
    hits = [hit(f"d{n:02}", score=0.9 - n / 50, source_type=("legge", None)[n % 2]) for n in range(40)]
    many = THREE | {"vector": answered("vector", *hits)}
    answer = read(fields(request(include=EXPLAINED, top_k=50), plan(method=method, boosts=boosts), many))
    assert len(answer.hits) == 42
    assert any("bound" in one.boosts for one in answer.hits)
    for one in answer.hits:
        contributions = [branch.weight * branch.normalised for branch in one.branches.values()]
        assert [branch.contribution for branch in one.branches.values()] == pytest.approx(contributions)
        assert one.score == pytest.approx(fsum(contributions) * prod(one.boosts.values()), rel=1e-11)
        assert one.score_kind == method


INCLUDED = {
    "ids": set(),
    "metadata": {"title", "found_by", "source_type", "language", "metadata"},
    "snippets": {"snippet"},
    "texts": {"text", "matches"},
    "explanation": {"branches", "boosts"},
}


@pytest.mark.parametrize("include", INCLUDED)
def test_a_hit_carries_what_the_request_includes(include: Any) -> None:
    best = fields(request(include=(include,)))["questions"][0]["hits"][0]
    always = {"rank", "document_id", "passage_id", "score", "score_kind", "folded"}
    assert best.keys() == always | INCLUDED[include]


@pytest.mark.parametrize("odd", [5, True, ["en", "de"], {"is": "en"}, 0.5])
def test_metadata_of_a_wrong_type_are_left_out_and_the_answer_stays(odd: object) -> None:
    strange = texts(
        "a", "b", "c", text="The notice period.", language=odd, url=odd, published_at=odd, topic=odd
    )
    best, *_ = read(fields(request(), texts=strange)).hits
    assert (best.language, best.url, best.published_at) == (None, None, None)
    assert best.metadata == {"topic": odd}


def test_a_missing_text_is_a_warning_and_the_hit_stays() -> None:
    built = fields(request(), texts={key: text for key, text in TEXTS.items() if key != "b#0"})
    assert built["status"] == "complete"
    assert ranks(built) == [(1, "a"), (2, "b"), (3, "c")]
    assert "snippet" not in built["questions"][0]["hits"][1]
    assert built["warnings"] == ["document_missing: no text in the store for b#0"]


def ranks(built: dict[str, Any]) -> list[tuple[int, str]]:
    """Ranks and documents of the first question."""
    return [(one["rank"], one["document_id"]) for one in built["questions"][0]["hits"]]


def test_texts_that_were_not_fetched_give_a_reason_and_no_warning() -> None:
    built = fields(request(offset=1), texts=None, degraded=[Degradation("fetch", Reason.BUDGET)])
    assert (built["status"], built["warnings"]) == ("degraded", [])
    assert built["degraded"] == [{"where": "fetch", "reason": "budget", "detail": ""}]
    assert ranks(built) == [(2, "b"), (3, "c")], "ranks continue from page to page"


def test_a_branch_that_failed_degrades_the_answer_with_its_reason() -> None:
    """A branch that a rule left out does not degrade the answer."""
    results = THREE | {
        "vector": BranchResult.failed("vector", Reason.UNAVAILABLE, "connection refused", ms=3.0),
        "hyde": BranchResult.failed("hyde", Reason.RULE, "an identifier"),
    }
    built = fields(request(), results=results)
    assert built["status"] == built["questions"][0]["status"] == "degraded"
    why = {"where": "search.vector", "reason": "unavailable", "detail": "connection refused"}
    assert built["degraded"] == [why]
    stages = {one["stage"]: one for one in built["stages"]}
    failed = {"stage": "search.vector", "status": "failed", "ms": 3.0, "detail": "unavailable"}
    assert stages["search.vector"] == failed
    assert (stages["search.hyde"]["status"], stages["search.hyde"]["detail"]) == ("skipped", "rule")
    alone = fields(request(), results=THREE | {"hyde": results["hyde"]})
    assert (alone["status"], alone["degraded"]) == ("complete", [])


def test_a_branch_without_a_branch_result_has_the_reason_that_the_caller_knows() -> None:
    results = {"bm25": THREE["bm25"]}
    absent = {"hyde": Degradation("search.hyde", Reason.TIMEOUT, "started 300 ms ago")}
    built = fields(request(), results=results, absent=absent)
    assert built["degraded"] == [
        {"where": "search.vector", "reason": "not_started", "detail": ""},
        {"where": "search.hyde", "reason": "timeout", "detail": "started 300 ms ago"},
    ]


def test_a_branch_that_answered_too_few_questions_is_an_invalid_answer() -> None:
    two = (Ranking((hit("a"),)), Ranking((hit("b"),)))
    results = {
        "bm25": BranchResult("bm25", "ok", rankings=two),
        "vector": BranchResult("vector", "ok", rankings=two[:1]),
    }
    planned = plan((branch("bm25"), branch("vector")), searched=(0, 1))
    assert fields(Request(questions=("one", "two")), planned, results)["degraded"] == [
        {"where": "search.vector", "reason": "invalid_answer", "detail": "answered 1 of 2 questions"}
    ]


def test_a_branch_that_finds_nothing_has_answered() -> None:
    results = {name: BranchResult(name, "empty", rankings=(Ranking(),)) for name in THREE}
    built = fields(request(), results=results)
    assert (built["status"], built["questions"][0]["hits"]) == ("complete", [])
    results["hyde"] = BranchResult("hyde", "empty")
    assert fields(request(), results=results)["degraded"] == []


@pytest.mark.parametrize(
    ("policy", "names", "status", "has_hits"),
    [
        ({"require": ("hyde",)}, ("bm25", "vector"), "failed", False),
        ({"require": ("bm25",)}, ("bm25", "vector"), "degraded", True),
        # Every branch is required unless some are named.
        ({"on_missing": "fail"}, ("bm25", "vector"), "failed", False),
        ({"on_missing": "fail", "require": ("bm25",)}, ("bm25", "vector"), "degraded", True),
        ({"on_missing": "fail"}, tuple(THREE), "complete", True),
        ({"on_missing": "empty"}, ("bm25",), "degraded", False),
        ({"on_missing": "empty"}, tuple(THREE), "complete", True),
        ({"min_branches": 2}, ("bm25",), "failed", False),
        ({"min_branches": 2}, ("bm25", "hyde"), "degraded", True),
        ({}, (), "failed", False),
    ],
    ids=str,
)
def test_the_policy_decides_what_an_answer_without_some_branches_is(
    policy: dict[str, Any], names: tuple[str, ...], status: str, has_hits: bool
) -> None:
    built = fields(request(**policy), results={name: THREE[name] for name in names})
    assert (built["status"], bool(built["questions"][0]["hits"])) == (status, has_hits)


@pytest.mark.parametrize("reason", Reason)
def test_an_answer_that_fails_its_policy_names_every_reason(reason: Reason) -> None:
    failed = {"hyde": BranchResult.failed("hyde", reason)}
    built = fields(request(require=["hyde"]), results=THREE | failed)
    assert built["status"] == "failed"
    assert [(one["where"], one["reason"]) for one in built["degraded"]] == [("search.hyde", str(reason))]


def test_an_empty_question_is_skipped_beside_others_that_are_answered() -> None:
    search = Request(questions=("notice period", " \n"))
    built = fields(search)
    assert [one["status"] for one in built["questions"]] == ["complete", "skipped"]
    assert built["status"] == "complete"
    assert fields(request(""), plan(searched=()))["status"] == "skipped"
    assert fields(request(needs_retrieval=False), plan(searched=()))["status"] == "skipped"


def test_a_cached_question_is_answered_beside_the_searched_ones_and_alone_no_branch_is_missing() -> None:
    known = fields(request())["questions"][0]
    partly = fields(Request(questions=("known", "notice period")), plan(searched=(1,), cached={0: known}))
    assert partly["questions"][0] == {**known, "text": "known"}
    assert partly["questions"][1]["hits"] == known["hits"]
    assert partly["cached"] is False
    whole = fields(request(), plan(searched=(), cached={0: known}), {}, texts={})
    assert (whole["cached"], whole["status"], whole["degraded"], whole["stages"]) == (
        True,
        "complete",
        [],
        [],
    )


def test_a_request_has_the_status_of_its_worst_question() -> None:
    assert worst(["complete", "degraded", "failed"]) is Status.FAILED
    assert worst(["complete", "degraded", "skipped"]) is Status.DEGRADED
    assert worst(["skipped", "complete"]) is Status.COMPLETE
    assert worst(["skipped"]) is Status.SKIPPED
    assert worst(["complete", "melted"]) is Status.FAILED


def test_one_list_has_the_stages_of_plan_branches_and_fusion() -> None:
    noted = answered("vector", hit("a"), ms=7.0, stages=(StageNote("embed", ms=2.5, n_in=1, n_out=1),))
    planned = plan(stages=({"stage": "plan", "status": "ok", "ms": 0.4},))
    fetched = StageNote("fetch", ms=1.5, n_in=3, n_out=3)
    built = fields(request(), planned, THREE | {"vector": noted}, stages=[fetched])
    assert [one["stage"] for one in built["stages"]] == [
        *("plan", "search.bm25", "embed", "search.vector", "search.hyde"),
        *("collapse", "fuse", "boost", "fold", "fetch", "snippet"),
    ]
    by_name = {one["stage"]: one for one in built["stages"]}
    assert by_name["embed"]["detail"] == "vector"
    whole = {"stage": "search.vector", "status": "ok", "ms": 7.0, "n_in": 1, "n_out": 1}
    assert by_name["search.vector"] == whole


def test_warnings_of_plan_and_rankings_appear_once_each() -> None:
    warned = BranchResult("bm25", "ok", rankings=(Ranking(warnings=("store", "field")),))
    built = fields(request(), plan(warnings=("plan", "store")), THREE | {"bm25": warned})
    assert built["warnings"] == ["plan", "store", "field"]


def test_the_stages_of_several_questions_are_added_up_with_the_worst_status() -> None:
    two = {"bm25": BranchResult("bm25", "ok", rankings=(Ranking((hit("a"), hit("b"))), Ranking((hit("b"),))))}
    built = fields(Request(questions=("one", "two")), plan((branch("bm25"),), searched=(0, 1)), two)
    [fuse] = [one for one in built["stages"] if one["stage"] == "fuse"]
    assert (fuse["n_in"], fuse["n_out"]) == (3, 3)
    notes = [StageNote("fold", "ok", 1.5, 4), StageNote("fold", "partial", 2.0, 3, 2, detail="cut")]
    assert merged_notes(notes) == [StageNote("fold", "partial", 3.5, 7, 2, detail="cut")]


def test_a_score_of_nan_or_infinity_becomes_null_in_json() -> None:
    results = {"bm25": answered("bm25", hit("a", score=float("nan")), hit('q"\\\u2028', score=float("inf")))}
    answer = read(fields(request(include=EXPLAINED), results=results, texts={}))
    assert [one.branches["bm25"].score for one in answer.hits] == [None, None]
    assert answer.hits[1].document_id == 'q"\\\u2028'


def long_answer(text: str, *, status: str = "complete") -> dict[str, Any]:
    hits = [
        {"rank": 1, "document_id": "a", "passage_id": "a#0", "score": 0.5, "score_kind": "rrf", "text": text},
        {"rank": 2, "document_id": "b", "passage_id": "b#0", "score": 0.4, "score_kind": "rrf", "text": text},
    ]
    questions = [{"status": status, "hits": hits}, {"status": "skipped", "hits": []}]
    return {"v": 1, "status": status, "degraded": [], "stages": [], "questions": questions}


def test_an_answer_within_the_limit_stays_whole_and_a_failed_one_stays_failed() -> None:
    fields = long_answer("short")
    size = len(size_limited(fields, 1_000_000)[1])
    assert size_limited(fields, size) == (fields, size_limited(fields, 1_000_000)[1])
    assert size_limited(fields, size - 1)[0] != fields
    failed, _ = size_limited(long_answer("x" * 1_000, status="failed"), 100)
    assert (failed["status"], failed["questions"][0]["status"]) == ("failed", "failed")


def test_an_answer_over_the_limit_loses_its_texts_and_says_so() -> None:
    fields, body = size_limited(long_answer("é" * 600_000), 2_000_000)

    assert fields["status"] == "degraded"
    assert [question["status"] for question in fields["questions"]] == ["degraded", "skipped"]
    assert [(hit["document_id"], hit["score"]) for hit in fields["questions"][0]["hits"]] == [
        ("a", 0.5),
        ("b", 0.4),
    ]
    # Twice 600,000 characters of two bytes, and a little around them.
    (why,) = fields["degraded"]
    assert (why["where"], why["reason"]) == ("fetch", "budget")
    assert "2 hits as asked for have 2.4 MB; an answer may have 2 MB" in why["detail"]
    assert len(body) < 2_000
    assert from_json(body) == fields
