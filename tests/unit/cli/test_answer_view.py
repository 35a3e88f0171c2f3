"""An answer as it is shown."""

from __future__ import annotations

import io
from typing import Any

from chorale_client.answer import Answer, Degradation, Snippet, StageLine
from rich.console import Console

from cli.views.answer import bar, highlighted, missing_lines, placed_stages, show_answer

ANSWER: dict[str, Any] = {
    "request_id": "r-1",
    "status": "degraded",
    "took_ms": 12.4,
    "degraded": [
        {"where": "search.vector", "reason": "not_started", "detail": "no worker took it"},
        {"where": "search.hyde", "reason": "not_started", "detail": "no worker took it"},
        {"where": "fetch", "reason": "budget", "detail": ""},
    ],
    "stages": [
        {"stage": "plan", "ms": 1.0},
        {"stage": "search", "ms": 2.0, "detail": "bm25"},
        {"stage": "search.bm25", "ms": 3.0, "start_ms": 5.0, "n_in": 1, "n_out": 7},
        {"stage": "boost", "status": "skipped", "detail": "not_declared", "start_ms": 9.0},
        {"stage": "fuse", "ms": 1.0, "start_ms": 9.0, "n_in": 7, "n_out": 1},
    ],
    "questions": [
        {
            "status": "degraded",
            "total_matches": 7,
            "hits": [
                {
                    "rank": 1,
                    "document_id": "law/notice.md",
                    "passage_id": "law/notice.md#0",
                    "score": 0.0123456,
                    "score_kind": "rrf",
                    "title": "Notice",
                    "source_type": "faq",
                    "snippet": {"text": "The notice\nperiod is 3 months.", "highlights": [[4, 10]]},
                    "found_by": ["bm25"],
                    "branches": {
                        "bm25": {
                            "rank": 2,
                            "score": 8.5,
                            "normalised": 0.0161290,
                            "weight": 0.3,
                            "contribution": 0.0048387,
                            "passage_id": "law/notice.md#0",
                        }
                    },
                    "boosts": {"recency": 1.25},
                    "folded": [{"document_id": "law/copy.md", "why": "exact_copy", "similarity": 1.0}],
                }
            ],
        }
    ],
}


def shown(wire: dict[str, Any], *, explain: bool = False) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, width=100, highlight=False, markup=False, emoji=False)
    show_answer(console, Answer.from_wire(wire), explain=explain)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_hit_shows_its_title_snippet_and_the_rank_and_score_of_its_branches() -> None:
    lines = shown(ANSWER)
    first = next(number for number, line in enumerate(lines) if line.startswith("1 "))
    assert lines[first].split() == ["1", "Notice", "bm25", "#2", "8.500"]
    assert lines[first + 1].split() == [
        "The",
        "notice",
        "period",
        "is",
        "3",
        "months.",
        "recency",
        "×",
        "1.250",
    ]
    assert lines[first + 2].split() == [
        "law/notice.md",
        "·",
        "faq",
        "·",
        "exact",
        "copy",
        "law/copy.md",
        "folded",
        "rrf",
        "0.01235",
    ]


def test_each_reason_for_missing_branches_is_shown_once_in_words() -> None:
    lines = shown(ANSWER)
    assert "missing search.vector, search.hyde not_started: no worker took it" in lines
    # Without a detail of its own the reason explains itself.
    assert "missing fetch budget: cut by the clock in the middle" in lines
    assert lines[-1] == "degraded · 1 hit of at least 7 · 12 ms · r-1"


def test_a_reason_of_a_newer_version_is_shown_like_any_other() -> None:
    (line,) = missing_lines([Degradation(where="search.x", reason="moonlight")])
    assert line.plain.startswith("missing search.x moonlight: ")


def test_explain_shows_the_stages_and_how_each_score_is_computed() -> None:
    text = "\n".join(shown(ANSWER, explain=True))
    assert "= 0.30 × 0.01613 = 0.00484" in text
    assert "skipped not_declared" in text
    assert "1 → 7" in text
    assert "= 0.30" not in "\n".join(shown(ANSWER))


def test_a_cached_answer_without_hits_says_so() -> None:
    lines = shown(
        {"request_id": "r", "status": "complete", "cached": True, "questions": [{"status": "complete"}]}
    )
    assert lines == ["complete · no hits · 0 ms from the cache · r"]


def test_highlights_stay_on_their_words_when_line_breaks_are_removed() -> None:
    text = highlighted(Snippet(text="a\n\nnotice\tperiod", highlights=((3, 9),)))
    assert text.plain == "a  notice period"
    assert [text.plain[span.start : span.end] for span in text.spans] == ["notice"]


def test_the_steps_of_a_branch_follow_one_another_from_its_beginning() -> None:
    stages = [
        StageLine(stage="cache", ms=1.0),
        StageLine(stage="plan", ms=2.0),
        StageLine(stage="embed", ms=4.0),
        StageLine(stage="search", ms=1.5),
        StageLine(stage="search.vector", ms=6.0, start_ms=10.0),
        StageLine(stage="fuse", ms=1.0, start_ms=16.0),
    ]
    assert [(stage.stage, at, is_step) for stage, at, is_step in placed_stages(stages)] == [
        ("cache", 0.0, False),
        ("plan", 1.0, False),
        ("search.vector", 10.0, False),
        ("embed", 10.0, True),
        ("search", 14.0, True),
        ("fuse", 16.0, False),
    ]


def test_a_bar_has_its_place_and_length_on_the_scale() -> None:
    assert bar(0, 10, 10, columns=4) == "████"
    assert bar(5, 5, 10, columns=4) == "  ██"
    # A quarter of a column is two eighths.
    assert bar(0, 1, 16, columns=4) == "▎"
    # However short, it can be seen; what took no time cannot.
    assert bar(10, 0.001, 10, columns=4) == "   ▏"
    assert bar(5, 0, 10, columns=4) == "  "


def test_a_refusal_says_when_to_ask_again() -> None:
    last = shown({"request_id": "r-1", "status": "refused", "retry_after_s": 1.5, "took_ms": 0})[-1]
    assert last == "refused · no hits · 0 ms · ask again in 1.5 s · r-1"


def test_a_context_and_what_was_removed_are_shown() -> None:
    context = {"text": "[1] Tea\nGreen.", "tokens": 5, "left_out": 2}
    question = {"status": "complete", "removed": {"group_by": 1_200}, "context": context}
    lines = shown({"request_id": "r-1", "status": "complete", "took_ms": 0, "questions": [question]})
    assert lines[:3] == ["[1] Tea", "Green.", "5 tokens, 2 passages left out"]
    assert lines[-1] == "complete · no hits · removed by group_by 1,200 · 0 ms · r-1"
