"""From text to terms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.errors import WrongDeclaration
from search.analysis import LANGUAGES, analyser, indexed_text, language_of, prepared, question_terms
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


ARTICLES = {
    "en": "The tenant gives notice to the landlord in the first week of the month, and it is not possible that he does so later.",
    "de": "Der Mieter hat dem Vermieter die Kündigung in der ersten Woche des Monats zu erklären, und das ist nicht später möglich.",
    "it": "Il conduttore deve dare la disdetta al locatore nella prima settimana del mese, e non è possibile che la dia dopo.",
    "fr": "Le locataire doit donner le congé au bailleur dans la première semaine du mois, et il n'est pas possible de le faire après.",
    "nl": "De huurder moet de huur in de eerste week van de maand opzeggen en het is niet mogelijk dat hij dat later doet.",
}


@pytest.mark.parametrize("language", ARTICLES)
def test_the_language_of_texts_is_the_one_whose_stop_words_they_use(language: str) -> None:
    # Each sentence has 18 words or more, so six of them have over a hundred.
    assert language_of([ARTICLES[language]] * 6) == language


def test_few_words_words_without_a_language_and_scripts_without_stop_words_tell_none() -> None:
    assert language_of([ARTICLES["de"]]) is None
    assert language_of(["ERR-4711 E0308 NullPointerException"] * 50) is None
    assert language_of(["привет мир 漢字 かな"] * 50) is None
