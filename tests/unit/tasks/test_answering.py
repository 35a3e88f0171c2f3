"""What a bulk worker makes of lines that it cannot read, how it reranks, and which answers it does not cache."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from chorale_client.request import Request

from config.settings import Settings
from fusion.branch_results import BranchAnswers
from inference.protocol import PairScores
from models.branch_result import BranchResult
from models.hits import Ranking
from models.plan import Plan
from records.jobs.job import Line, Segment
from tasks.jobs import answering
from tasks.jobs.answering import answer_lines
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.unit.fusion.builders import RERANK, branch, hit, plan, texts


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"questions": [{"text": "tea"}], "unheard_of": 1}, "unheard_of"),
        ({"questions": [{"text": "tea"}], "top_k": "many"}, "top_k"),
        ({"top_k": 3}, "questions"),
    ],
)
def test_a_line_of_another_version_fails_alone_and_does_not_end_the_worker(
    fields: dict[str, Any], why: str
) -> None:
    lines = [Line(1, "a", fields), Line(2, "b", None, "text: empty")]
    segment = Segment("job", 0, 1, 0, 1, lines, [None, None], [0], None, "docs", 0)
    no_branches = SimpleNamespace(kinds=SimpleNamespace(branches={}), branches=())
    resources = cast("Any", SimpleNamespace(pipeline=no_branches))
    results, transient = answer_lines(resources, segment, segment.remaining)
    assert (results[0]["status"], transient) == ("failed", set())
    assert why in results[0]["error"]


def answered(
    folder: Path,
    patch: pytest.MonkeyPatch,
    request_plan: Plan,
    rankings: tuple[Ranking, ...],
    lines: list[Line],
    reranker: object = None,
) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """The results of the lines whose branch `bm25` finds these rankings, and what the answer cache gets."""

    def searched(_: Resources, request: Request) -> BranchAnswers:
        return BranchAnswers(
            request, request_plan, {"bm25": BranchResult("bm25", "ok", rankings=rankings, generation=1)}
        )

    patch.setattr(answering, "_searched", searched)
    resources = Resources(Settings(home=folder), load_pipeline(), "redis://nowhere")
    resources._rerankers["tiny"] = cast("Any", reranker)
    cached: dict[str, bytes] = {}
    resources.answers = SimpleNamespace(put_many=lambda values, ttl_s: cached.update(values))
    places = list(range(len(lines)))
    segment = Segment("job", 0, 1, 1, 0, lines, [None] * len(lines), places, None, "default", 0)
    results, _ = answer_lines(resources, segment, segment.remaining)
    return [results[place] for place in places], cached


class Slow:
    """A reranker that gives every pair the same high score.  Its time suffices for some pairs, or it scores ten pairs a second."""

    fingerprint = "half"

    def __init__(self, pairs: int | None = None) -> None:
        self._pairs = pairs

    def most(self, limit_s: float) -> int:
        return self._pairs or int(limit_s * 10)

    def score(self, pairs: list[tuple[str, str]], *, limit_s: float) -> PairScores:
        chosen = min(len(pairs), self.most(limit_s))
        return PairScores((3.0,) * chosen + (None,) * (len(pairs) - chosen), chosen=chosen)


@pytest.mark.parametrize(("n_hits", "status", "is_cached"), [(2, "complete", True), (4, "degraded", False)])
def test_a_page_chosen_among_hits_that_the_reranker_had_no_time_for_is_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_hits: int, status: str, is_cached: bool
) -> None:
    request_plan = plan((branch("bm25"),), rerank=RERANK, models={"reranker": "half"}, fusion_reserve_ms=560)
    ids = [f"d{place}" for place in range(n_hits)]
    ranking = Ranking(tuple(hit(id_) for id_ in ids), texts=texts(*ids))
    fields = {"questions": [{"text": "tea"}], "thresholds": {"min_rerank_score": 0.5}}

    results, cached = answered(
        tmp_path, monkeypatch, request_plan, (ranking,), [Line(1, "a", fields)], Slow(2)
    )

    assert (results[0]["status"], len(results[0]["hits"])) == (status, 2)
    assert bool(cached) == is_cached


def test_a_line_has_no_warnings_of_the_lines_that_were_answered_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_plan = plan((branch("bm25"),), searched=(0, 1), warnings=("the plan says",))
    with_shop = Ranking((hit("a"),), texts=texts("a", shop="north"))
    without = Ranking((hit("b"),), texts=texts("b"))
    lines = [
        Line(number, str(number), {"questions": [{"text": text}], "group_by": "shop"})
        for number, text in enumerate(("tea", "rice"), start=1)
    ]

    results, cached = answered(tmp_path, monkeypatch, request_plan, (with_shop, without), lines)

    assert results[0]["warnings"] == ["the plan says"]
    assert results[1]["warnings"] == ["the plan says", "group_by: no hit has the field 'shop'"]
    assert not cached  # the next who asks needs the warning too


def test_each_line_has_the_time_of_a_reranker_that_a_request_of_its_own_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 ms are enough for three pairs (some of it goes to the snippets), and 3 x 400 ms for eleven."""
    request_plan = plan((branch("bm25"),), searched=(0, 1, 2), rerank=RERANK, fusion_reserve_ms=560)
    ids = ["d1", "d2", "d3"]
    ranking = Ranking(tuple(hit(id_) for id_ in ids), texts=texts(*ids))
    lines = [Line(at, str(at), {"questions": [{"text": f"tea {at}"}], "cache": "bypass"}) for at in (1, 2, 3)]

    results, _ = answered(tmp_path, monkeypatch, request_plan, (ranking,) * 3, lines, Slow())

    for result in results:
        assert [hit["rerank"]["stage"] for hit in result["hits"]] == ["reranked"] * 3
