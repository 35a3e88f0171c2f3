"""The words of the question in title and text, as offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.question_terms import QuestionTerms
from fusion.snippets import MOST_MATCHES, matches_of
from models.documents import PassageText


def words(question: str, title: str, text: str) -> list[tuple[str, str]]:
    passage = PassageText("a#0", "a", title, "", text, {})
    fields = {"title": title, "text": text}
    return [
        (one["field"], fields[one["field"]][one["start"] : one["end"]])
        for one in matches_of(passage, QuestionTerms(question))
    ]


def test_words_with_the_stem_of_a_word_of_the_question_are_found_in_title_and_text() -> None:
    assert words("the notice of tenants", "Notices", "🏠 A TENANT gives nótice.") == [
        ("title", "Notices"),
        ("text", "TENANT"),
        ("text", "nótice"),
    ]


def test_pairs_of_characters_that_overlap_are_one_match() -> None:
    assert words("通知期間", "", "解約の通知期間は三か月") == [("text", "通知期間")]


@pytest.mark.parametrize(
    ("question", "text", "marked"),
    [
        ("AB123/4", "Part AB-123/4.", ["AB-123/4"]),
        ("AB 123 4", "Part AB-123/4.", ["AB-123/4"]),
        ("1299", "It costs $1,299.00.", ["1,299.00"]),
        ("C++", "C and C++.", ["C", "C++"]),
        ("user name", "Call getUserName().", ["User", "Name"]),
        ("electromagnetic", "electro-\nmagnetic waves", ["electro-\nmagnetic"]),
        ("deposit", "The **D**eposit.", ["D**eposit"]),
        ("deposit", "The <b>D</b>eposit.", ["D</b>eposit"]),
        ("München", "in M&uuml;nchen", ["M&uuml;nchen"]),
        ("café", "caf&eacute; au lait", ["caf&eacute;"]),
        ("password", "a pass\u200bword", ["pass\u200bword"]),
        ("surcharge", "a surcharge¹", ["surcharge"]),
        ("istanbul", "İstanbul", ["İstanbul"]),
        ("שלום", "שָׁלוֹם", ["שָׁלוֹם"]),
        ("检", "全文检索", ["检"]),
        ("检索", "检\n索", ["检\n索"]),
        ("दिल", "दिल्ली", []),
        ("ไทย", "ภาษาไทยง่าย", ["ไทย"]),
    ],
)
def test_the_highlighter_reads_words_as_the_search_does(question: str, text: str, marked: list[str]) -> None:
    assert [word for _, word in words(question, "", text)] == marked


def test_a_field_has_a_limited_number_of_matches() -> None:
    assert len(words("tea", "tea", "tea " * (MOST_MATCHES + 50))) == MOST_MATCHES + 1


@given(st.text(max_size=30), st.text(max_size=60))
def test_matches_ascend_and_lie_inside_their_field(question: str, text: str) -> None:
    found = matches_of(PassageText("a#0", "a", "", "", text, {}), QuestionTerms(question))
    ends = [at for one in found for at in (one["start"], one["end"])]
    assert ends == sorted(ends)
    assert all(0 <= one["start"] < one["end"] <= len(text) for one in found)
