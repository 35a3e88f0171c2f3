"""Every fusion method and preset, named in the request, goes through the real queues; its explanation is enough to recompute."""

from __future__ import annotations

import pytest

from assembly.kinds import BUILT_IN
from tests.support.pipelines.one_process import OneProcess


@pytest.mark.parametrize("method", BUILT_IN.methods)
def test_an_answer_by_a_method_that_the_request_names_explains_its_scores(
    here: OneProcess, method: str
) -> None:
    answer = here.ask(
        "three months notice of a tenant",
        fusion=method,
        cache="bypass",
        include=["ids", "explanation"],
        timeout_s=20,
    )
    assert answer.status == "complete"
    assert answer.hits[0].document_id == "notice"
    assert {hit.score_kind for hit in answer.hits} == {method}
    for hit in answer.hits:
        by_hand = sum(said.weight * said.normalised for said in hit.branches.values())
        assert hit.score == pytest.approx(by_hand, rel=1e-9)
