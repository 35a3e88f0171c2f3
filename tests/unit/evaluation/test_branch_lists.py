"""Which recorded lists a second recording takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation import branch_lists
from evaluation.branch_lists import BranchLists, JudgedQuestion, record


def test_a_question_with_other_filters_or_in_another_namespace_is_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[JudgedQuestion] = []

    def search(one: JudgedQuestion, *_: Any) -> BranchLists:
        searched.append(one)
        return BranchLists(one.question_id, one.text, {}, {}, one.where)

    monkeypatch.setattr(branch_lists, "_searched", search)
    monkeypatch.setattr(branch_lists, "_identity", lambda *_: "the same index")
    nothing: Any = SimpleNamespace()
    before = [
        JudgedQuestion("line 1", "who?", "law", {"year": 2020}),
        JudgedQuestion("line 2", "why?", "docs"),
    ]
    record(before, nothing, tmp_path / "lists.jsonl")
    assert searched == before

    after = [JudgedQuestion("line 1", "who?", "law", {"year": 2024}), JudgedQuestion("line 2", "why?", "law")]
    assert record([*before, *after], nothing, tmp_path / "lists.jsonl").reused == 2
    assert searched == [*before, *after]
    assert record(after, nothing, tmp_path / "lists.jsonl").reused == 2
