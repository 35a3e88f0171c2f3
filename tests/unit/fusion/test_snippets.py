"""The part of a passage that answers the question, and the words of the question in title and text."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fusion.question_terms import QuestionTerms, tokens
from fusion.snippets import ELLIPSIS, MAX_TEXT_CHARS, MOST_MATCHES, Snippet, best_snippet, matches_of
from models.documents import PassageText
from models.texts.identifiers import forms, wholes
from models.texts.readable_text import readable

FILLER = "Nothing of interest stands in this sentence. " * 8
LEASE = "The notice period of a lease is three months. "
TEXT = FILLER + LEASE + FILLER


def snippet(text: str, question: str, max_chars: int = 120) -> Snippet:
    return best_snippet([text], QuestionTerms(question), max_chars)[1]


def highlighted(part: Snippet) -> list[str]:
    return [part.text[start:end] for start, end in part.highlights]


def test_the_snippet_is_cut_where_the_terms_of_the_question_are_and_uses_its_length() -> None:
    part = snippet(TEXT, "How long are notice periods for leases?")
    assert LEASE.strip() in part.text
    assert highlighted(part) == ["notice", "period", "lease"]
    assert part.text.startswith(ELLIPSIS)
    assert part.text.endswith(ELLIPSIS)
    wide = snippet(TEXT, "notice period of a lease", 240).text
    assert LEASE.strip() in wide
    assert len(wide) > 200


SYSTEM = "The system works. " * 20


@pytest.mark.parametrize(
    ("text", "question", "window"),
    [
        ("Notice. " * 30 + FILLER + "A notice and its period. " + FILLER, "notice period", "its period."),
        (SYSTEM + "The watchdog barks. " + SYSTEM, "system watchdog", "watchdog"),
        (FILLER + "Alpha, beta, gamma. " + FILLER + "Only alpha. " + FILLER, "alpha beta gamma", "gamma"),
    ],
    ids=["more terms in one place", "the rare word", "not the terms outside the window"],
)
def test_the_window_whose_terms_weigh_most_is_shown(text: str, question: str, window: str) -> None:
    assert window in snippet(text, question, 80).text


def test_a_short_text_stays_whole() -> None:
    assert snippet("  One\n line. ", "line") == Snippet("One line.", ((4, 8),))


def test_a_snippet_without_a_match_is_the_beginning_of_the_text() -> None:
    part = snippet(TEXT, "quantum chromodynamics")
    assert part.text.startswith("Nothing of interest")
    assert part.text.endswith(ELLIPSIS)
    assert part.highlights == ()


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("notice", "notices"),
        ("Policy", "policies"),
        ("connected", "connection"),
        ("contratto", "contratti"),
        ("perché", "PERCHE"),
        ("Straße", "STRASSE"),
        ("naïve", "nai\u0308ve"),
        ("E4711", "e4711"),
    ],
)
def test_words_match_without_case_accents_and_endings(word: str, other: str) -> None:
    assert highlighted(snippet(f"Here is {other}, you see.", word)) == [other]
    assert highlighted(snippet(f"Here is {word}, you see.", other)) == [word]


@pytest.mark.parametrize(
    ("word", "other"),
    [("contract", "contrast"), ("cat", "category"), ("notice", "prenotice"), ("E4711", "E4712")],
)
def test_words_with_only_a_similar_spelling_do_not_match(word: str, other: str) -> None:
    assert snippet(f"Here is {other}, you see.", word).highlights == ()


def test_stop_words_match_only_if_the_question_has_no_other_words() -> None:
    assert highlighted(snippet("What is the lease?", "what is the lease")) == ["lease"]
    assert highlighted(snippet("To be or not.", "to be")) == ["To", "be"]


def test_a_hindi_word_is_not_cut_at_its_vowel_signs() -> None:
    assert [stem for stem, _, _ in tokens("किताब पढ़ना")] == [
        unicodedata.normalize("NFKD", word) for word in ("किताब", "पढ़ना")
    ]
    assert highlighted(snippet("यह किताब है।", "किताब")) == ["किताब"]


@pytest.mark.parametrize(
    "character",
    [
        "e\u0301",
        "👩\u200d👩\u200d👧",
        "👍🏽",
        "🇮🇹",
        "\u1112\u1161\u11ab",
        "क्षि",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    ],
    ids=["accent", "family", "skin", "flag", "jamo", "conjunct", "England"],
)
def test_a_character_is_never_cut(character: str) -> None:
    for max_chars in range(40, 60):
        text = snippet(character * 200, "x", max_chars).text.strip(ELLIPSIS)
        assert text == character * (len(text) // len(character)) != ""
        around = character * 30
        assert len(snippet(f"{around} notice {around}", "notice", max_chars).text) <= max_chars


TABLE = "".join(
    f"| item {n} | costs {n * 7} euro | {'sold out' if n == 31 else 'on sale'} |\n" for n in range(60)
)


@pytest.mark.parametrize("max_chars", [60, 90, 120, 240])
def test_a_row_of_a_table_is_shown_whole_or_not(max_chars: int) -> None:
    text = snippet("The prices of our shop.\n\n" + TABLE, "Which item is sold out?", max_chars).text
    assert "item 31 | costs 217 euro | sold out" in text
    rows = [row.strip("| ") for row in TABLE.splitlines()]
    assert set(text.strip(ELLIPSIS).split(" · ")) <= {*rows}


def test_a_markdown_table_is_shown_without_outer_bars_and_the_line_below_its_header() -> None:
    text = "Our teas:\n\n| Sort | Minutes |\n|:---|---:|\n| Green tea | 2 |\n| Black | 4 |\n\n    ls | wc |\n    |x| x - 1"
    part = snippet(text, "black")
    assert part.text == "Our teas: Sort | Minutes · Green tea | 2 · Black | 4 ls | wc | |x| x - 1"
    assert highlighted(part) == ["Black"]


def test_a_row_longer_than_the_snippet_is_cut_between_its_cells() -> None:
    cells = [f"cell number {n} of many" for n in range(40)]
    text = snippet("| " + " | ".join(cells) + " |", "cell 20", 120).text.strip(ELLIPSIS + "| ")
    assert set(text.split(" | ")) <= set(cells)


@pytest.mark.parametrize("max_chars", [40, 50, 60, 80, 120, 440])
def test_a_short_snippet_of_a_long_sentence_shows_the_word_that_matches(max_chars: int) -> None:
    around = "nothing of interest stands in this part and nobody reads it " * 9
    part = snippet(f"{around} the notice period ends {around}", "notice", max_chars)
    assert highlighted(part) == ["notice"]


def test_the_text_whose_sentences_match_most_is_chosen_and_the_first_one_if_none_is_clearly_better() -> None:
    terms = QuestionTerms("notice period of a lease")
    texts = [FILLER + "A lease is long. " + FILLER, TEXT, "Nothing."]
    assert best_snippet(texts, terms, 120)[0] == 1
    assert LEASE.strip() in best_snippet(texts, terms, 120)[1].text
    assert best_snippet([TEXT, "Also so: " + TEXT], terms, 120)[0] == 0
    assert best_snippet(["Nothing.", "Nothing either."], terms, 120) == (0, Snippet("Nothing.", ()))


@pytest.mark.parametrize(
    "part",
    ["a", " ", ".", '."', "notice ", "aeiou", "e\u0301", "通知", "\u200d", "Notice. ", "🇮🇹", "| notice "],
    ids=repr,
)
def test_a_megabyte_of_anything_gives_a_short_snippet(part: str) -> None:
    cut = snippet(part * (1_000_000 // len(part)) + "\nnotice", "notice 通知期 aaaaaa aeiouaeiou é", 240)
    assert len(cut.text) <= 240


def test_a_snippet_of_a_text_over_the_limit_ends_with_an_ellipsis() -> None:
    cut = snippet("word " * (MAX_TEXT_CHARS // 5) + "notice", "notice")
    assert cut.highlights == ()
    assert cut.text.endswith(ELLIPSIS)


alphabet = st.sampled_from(
    [*"abcdeE notice.?!\n\"'_-1", "通", "知", "é", "e\u0301", "\u200d", "İ", "ß", " notice", " period "]
)
anything = st.lists(alphabet, max_size=200).map("".join)


@given(anything, anything, st.integers(40, 200))
@example("aaEa", "e\u0301aaEa", 40)
@example("1e", "1e\u0301a", 40)
@example(".be", "period .be", 40)
def test_highlights_are_words_of_the_snippet_in_order(text: str, question: str, max_chars: int) -> None:
    terms = QuestionTerms(question)
    _, part = best_snippet([text], terms, max_chars)
    assert len(part.text) <= max_chars
    assert not re.search(r"\s\s|^\s|\s$", part.text)
    ends = [bound for span in part.highlights for bound in span]
    assert ends == sorted(ends)
    for start, end in part.highlights:
        assert start < end <= len(part.text)
        highlight, _ = readable(part.text[start:end])
        # `.be` is an identifier of the question, of which `be` is no term.
        assert any(terms.term_of(stem) for stem, _, _ in tokens(highlight)) or (
            wholes(highlight) & wholes(readable(question)[0])
        )


@given(st.text(alphabet=st.sampled_from("abcdeinotc E.,_-1éÀçñøßİı²ª–’…€\u0301"), max_size=80), anything)
def test_the_search_by_word_beginnings_finds_the_same_as_reading_every_word(text: str, question: str) -> None:
    text, _ = readable(text)
    assume(not any(forms(text)))  # their words stand inside of others
    terms = QuestionTerms(question)
    read = [(term, start, end) for stem, start, end in tokens(text) if (term := terms.term_of(stem))]
    assert terms.matches(text) == read


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
        ("通知期間", "解約の通知期間は三か月", ["通知期間"]),  # pairs that overlap are one match
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
    matches = matches_of(PassageText("a#0", "a", "", "", text, {}), QuestionTerms(question))
    ends = [at for one in matches for at in (one["start"], one["end"])]
    assert ends == sorted(ends)
    assert all(0 <= one["start"] < one["end"] <= len(text) for one in matches)
