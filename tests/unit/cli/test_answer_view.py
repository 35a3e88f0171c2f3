"""An answer as it is shown."""

from __future__ import annotations

from chorale_client.answer import Degradation, Snippet, StageLine

from cli.views.answer import bar, highlighted, missing_lines, placed_stages


def test_branches_that_miss_for_one_reason_share_a_line() -> None:
    reason = {"reason": "not_started", "detail": "no worker took it"}
    missing = [Degradation(where=f"search.{name}", **reason) for name in ("vector", "hyde")]
    lines = missing_lines([*missing, Degradation(where="fetch", reason="a reason of a newer version")])
    assert [line.plain.split(":")[0] for line in lines] == [
        "missing search.vector, search.hyde not_started",
        "missing fetch a reason of a newer version",
    ]


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
