"""From text to terms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.errors import WrongDeclaration
from search.analysis import LANGUAGES, analyser, indexed_text, prepared, question_terms
from tests.contracts.store_documents import MANIFEST


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_an_analyser(language: str) -> None:
    assert analyser(language).analyze("abc 123") == ["abc", "123"]


def test_an_unknown_language_is_refused_naming_the_known_ones() -> None:
    with pytest.raises(WrongDeclaration, match=r"'pl'.*en, .*none"):
        analyser("pl")


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("en", "The cafés are running", ["cafe", "run"]),
        ("it", "il contratto", ["contratt"]),
        ("it", "i contratti", ["contratt"]),
        ("de", "die Häuser", ["haus"]),
        ("none", "The Cafés", ["the", "cafes"]),
        ("en", "cafe\u0301", ["cafe"]),
        ("en", "ｆｕｌｌ width", ["full", "width"]),
        ("en", "put_nowait E-1234", ["put", "nowait", "e", "1234"]),
    ],
)
def test_words_become_terms(language: str, text: str, terms: list[str]) -> None:
    assert list(question_terms(text, language)) == terms


def test_cjk_runs_become_bigrams_and_single_characters_stay() -> None:
    assert prepared("Python入門書 を").split() == ["Python", "入門", "門書", "を"]
    assert prepared("ab de").split() == ["ab", "de"]


def test_terms_of_a_question_are_counted_and_a_lone_surrogate_is_replaced() -> None:
    counted = {"tell": 1, "me": 1, "buffalo": 2, "cow": 1}
    assert question_terms("tell me: buffalo \ud800 Buffalo, cow", "none") == counted


def test_terms_are_capped_at_a_thousand_and_twenty_four() -> None:
    words = [f"w{i}" for i in range(2_000)]
    assert list(question_terms(" ".join(words), "none")) == words[:1_024]
    assert question_terms("w0 " * 5_000, "none") == {"w0": 5_000}


@pytest.mark.parametrize(
    ("title", "repeats", "times"),
    [
        ("Contract renewal notice", "auto", 2),
        ("The state of the contract", "auto", 1),  # two content words
        ("AML 1.1", "auto", 1),
        ("AML", "auto", 1),
        ("AML", "3", 3),
        ("Contract renewal notice", "0", 0),
    ],
)
def test_a_title_with_three_content_words_counts_twice(title: str, repeats: str, times: int) -> None:
    manifest = replace(MANIFEST, title_repeats=repeats)
    text = indexed_text(title, "Heading", "Body", manifest)
    assert text.split("\n") == [*[title] * times, "Heading", "Body"]


def test_the_error_about_an_unknown_language_says_what_serves_it() -> None:
    with pytest.raises(
        WrongDeclaration, match=r"'ja'; there are: ar, .*; none serves every other language \(zh, ja"
    ):
        analyser("ja")
