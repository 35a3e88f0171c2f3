"""Documents that no person wrote: splitting takes time in proportion to their size, and can be interrupted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ingest import headings
from ingest.headings import headings_of
from ingest.raw_documents import RawDocument
from ingest.split import Splitter

HOSTILE: dict[str, Callable[[int], str]] = {
    "headings": lambda lines: "".join(f"# h{number}\n" for number in range(lines)),
    "headings of all levels": lambda lines: "".join(
        f"{'#' * (number % 6 + 1)} h\n" for number in range(lines)
    ),
    "headings with text": lambda lines: "# h\ntext\n" * (lines // 2),
    "short lines": lambda lines: "a\n" * lines,
    "items of a list": lambda lines: "- a\n" * lines,
    "a quotation that goes on": lambda lines: "> " * 20 + "a\n" * lines,
    "one word": lambda lines: "aaaaaaaa" * lines,
    "sentences": lambda lines: "This is one. " * (lines // 4),
}


def counted_characters(text: str) -> int:
    """How many characters the tokenizer sees while the document is split."""
    seen = 0

    def count(part: str) -> int:
        nonlocal seen
        seen += len(part)
        return len(part.split())

    document = RawDocument("x", "s", "t", text, markup="markdown" if "# h" in text else "plain")
    list(Splitter(count, max_pieces=256).passages(document))
    return seen


@pytest.mark.parametrize("kind", HOSTILE)
def test_splitting_four_times_the_text_takes_at_most_five_times_the_work(kind: str) -> None:
    once, four_times = (counted_characters(HOSTILE[kind](lines)) for lines in (600, 2_400))
    assert four_times <= 5 * once


def test_a_text_of_very_many_lines_keeps_its_headings_outside_of_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(headings, "PARSED_LINES", 10)
    text = "# One #\n```\n# no\n```\n## *Two*\n" + "a\u2028# no\n" * 10 + "# C#"
    outline = headings_of(text)
    assert [(heading.level, heading.text) for heading in outline] == [(1, "One"), (2, "Two"), (1, "C#")]
    assert [text[heading.start : heading.end] for heading in outline] == [
        "# One #\n",
        "## *Two*\n",
        "# C#",
    ]


@pytest.mark.parametrize("parsed_lines", [20, 2_000], ids=["scanned", "parsed"])
def test_a_text_with_more_headings_than_a_reader_would_use_has_no_sections(
    monkeypatch: pytest.MonkeyPatch, parsed_lines: int
) -> None:
    monkeypatch.setattr(headings, "MAX_HEADINGS", 100)
    monkeypatch.setattr(headings, "PARSED_LINES", parsed_lines)
    assert headings_of("# h\n" * 101) == []
    assert len(headings_of("# h\n" * 100)) == 100
