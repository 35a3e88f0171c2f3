"""From text to terms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.documents import Document, Passage
from models.errors import WrongDeclaration
from models.texts.identifiers import forms
from models.texts.readable_text import readable
from search.analysis import LANGUAGES, analyser, indexed_texts, prepared, question_terms, terms
from tests.contracts.store_documents import MANIFEST


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_an_analyser(language: str) -> None:
    assert analyser(language).analyze("abc 123") == ["abc", "123"]


def test_an_unknown_language_is_refused_naming_the_known_ones() -> None:
    with pytest.raises(
        WrongDeclaration, match=r"'ja'; there are: ar, .*en, .*; none serves every other .* \(zh, ja"
    ):
        analyser("ja")


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
        ("en", "put_nowait E-1234", ["put", "nowait", "e", "1234", "put_nowait", "e_1234"]),
    ],
)
def test_words_become_terms(language: str, text: str, terms: list[str]) -> None:
    assert list(question_terms(text, language)) == terms


def test_unspaced_scripts_become_bigrams_and_single_characters_stay() -> None:
    assert prepared("Python入門書 を", is_question=True).split() == ["Python", "入門", "門書", "を"]
    assert prepared("ไม้ไผ่", is_question=True).split() == ["ไม้", "ม้ไ", "ไผ่"]
    # A text has its characters too, so that a question of one finds them.
    assert prepared("京都府").split() == ["京都", "都府", "京", "都", "府"]


def matches(question: str, text: str, language: str = "en") -> bool:
    """Whether BM25 finds the text with every term of the question."""
    return set(question_terms(question, language)) <= set(terms(text, language))


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Sparkolin™ valve", "Sparkolin"),
        ("©Sparkolin®", "Sparkolin"),
        ("a surcharge¹ applies", "surcharge"),
        ("10 m² of CO₂", "CO2"),
        ("Haus\u00adordnung", "Hausordnung"),
        ("electro\u00ad\n magnetic", "electromagnetic"),
        ("pass\u200bword", "password"),
        ("pass\u2060word", "password"),
        ("می\u200cخواهم", "میخواهم"),
        ("call \u200e5551234\u200f", "5551234"),
        ("**D**eposit", "deposit"),
        ("un*believ*able", "unbelievable"),
        ("~~De~~posit and `get`ter", "deposit getter"),
        ("<b>D</b>eposit", "deposit"),
        ('un<em class="x">believ</em>able', "unbelievable"),
        ("aspirin<sup>2</sup>", "aspirin"),
        ("first<br>second", "first second"),
        ("M&uuml;nchen, Stra&#223;e", "München Straße"),
        ("Haus&shy;ordnung", "Hausordnung"),
        ("snake\\_case", "snake_case"),
        ("3½ litres", "3"),
        ("№55", "55"),
        ("①first", "first"),
        ("İstanbul", "istanbul"),
        ("istanbul", "İSTANBUL"),
        ("שָׁלוֹם", "שלום"),
        ("الكِتابُ", "الكتاب"),
        ("كتــاب", "كتاب"),
        ("старый за́мок", "замок"),
        ("electro-\nmagnetic", "electromagnetic"),
        ("well-\nknown", "well known"),
        ("检\n索", "检索"),
        ("检索", "检"),
        ("漢<rp>(</rp><rt>kan</rt><rp>)</rp>字", "漢字"),
        ("ภาษาไทยง่าย", "ไทย"),
        ("ភាសាខ្មែរ", "ខ្មែរ"),
        ("ไทย\u200bง่าย", "ง่าย"),
        ("launch 🚀 now", "🚀"),
        ("I ❤️ tea", "❤"),
        ("from 🇮🇹", "🇮🇹"),
    ],
)
def test_a_word_is_found_as_a_person_reads_it(text: str, question: str) -> None:
    assert matches(question, text)


def test_an_entity_is_read_once() -> None:
    assert readable("&amp;copy; &sup1;")[0] == "&copy; ^¹"


def test_a_virama_cuts_no_word() -> None:
    assert not matches("दिल", "दिल्ली")
    assert matches("दिल्ली", "दिल्ली में")


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("10 m² of CO₂", "m2"),
        ("10 m<sup>2</sup>", "m2"),
        ("2.10.1", "v2.10.1"),
        ("v2.10.1", "2.10.1"),
        ("python-3.12.1", "3.12.1"),
        ("192.168.1.1:8080", "192.168.1.1"),
        ("2024-03-14T10:30:00Z", "2024-03-14"),
        ("2024/03/14", "2024-03-14"),
        ("at 10:30am", "10:30"),
        ("$1,299.00", "1299"),
        ("1.299,00 €", "1299"),
        ("1299 dollars", "$1,299.00"),
        ("1\u202f299,00 €", "1299"),
        ("AB-123/4", "AB123/4"),
        ("AB 123 4", "AB-123/4"),
        ("AB123/4", "AB 123 4"),
        ("ISO-9001", "ISO 9001"),
        ("covid19", "COVID-19"),
        ("C++", "c++"),
        ("C#", "c#"),
        (".NET", ".net"),
        ("getUserName()", "user name"),
        ("getUserName()", "getusername"),
        ("HTTPServer", "http server"),
        ("os.path.join", "os.path.join"),
    ],
)
def test_an_identifier_is_found_in_its_other_forms(text: str, question: str) -> None:
    wanted = _wholes(question) or question_terms(question, "none")
    assert set(wanted) <= set(terms(text, "none"))


def _wholes(text: str) -> list[str]:
    return [one.whole for one in forms(readable(text)[0]).identifiers if not one.is_inner]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("2.10.1", "1.10.2"),
        ("2024-03-14", "2014-03-24"),
        ("10:30", "30:10"),
        ("10.1.2.3", "1.10.2.3"),
        ("AB-123/4", "AB-4/123"),
        ("21.0.1", "2.10.1"),
        ("C++", "C#"),
        ("C++", "C"),
        ("get_user_name", "user_get_name"),
    ],
)
def test_identifiers_of_the_same_parts_differ_by_their_order(text: str, other: str) -> None:
    assert not matches(text, other, "none")


def test_ordinary_words_have_no_whole() -> None:
    assert _wholes("A well-known word, e.g. and/or U.S.A. 2*3 it's a.m.") == []


def test_no_term_has_white_space() -> None:
    text = "1\u00a0299,00 AB 123 4 a\u2003b C ++ 🚀 x\u0085y"
    assert not [term for term in terms(text, "en") if term.split() != [term]]


def test_terms_of_a_question_are_counted_and_a_lone_surrogate_is_replaced() -> None:
    counted = {"tell": 1, "me": 1, "buffalo": 2, "cow": 1}
    assert question_terms("tell me: buffalo \ud800 Buffalo, cow", "none") == counted


def test_terms_are_capped_at_a_thousand_and_twenty_four() -> None:
    words = [f"w{i}" for i in range(2_000)]
    assert list(question_terms(" ".join(words), "none")) == words[:1_024]
    assert question_terms("tea " * 5_000, "none") == {"tea": 5_000}


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
    passages = (Passage("a#0", 0, "Body", "Heading"), Passage("a#1", 1, "End", "Heading"))
    texts = indexed_texts(Document("a", "docs", title, passages), manifest, str)
    assert [text.split("\n") for text in texts.passages] == [
        [*[title] * times, "Heading", "Body"],
        [*[title] * times, "Heading", "End"],
    ]
    assert texts.document.split("\n") == [*[title] * times, "Body", "End"]


@pytest.mark.parametrize("sign", ["漢", "ก", "x", "1", "x-", "A 1 ", "xX", "a1"])
def test_a_long_run_of_any_sign_is_read_once(sign: str) -> None:
    """The text would take minutes if each sign looked at all that follow."""
    assert terms(sign * 100_000, "en") is not None
