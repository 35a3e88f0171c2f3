"""The questions for which no hypothesis is written, and the prompts."""

from __future__ import annotations

import pytest

from inference.language_models.prompts import filled, prompt_of
from inference.language_models.skip_rules import skip_rule


@pytest.mark.parametrize(
    "text",
    [
        "ERR-4711",
        "error ERR-4711 meaning?",
        "CVE-2024-12345",
        "0x80070005",
        "get_user_by_id",
        "getUserById",
        "numpy.linalg.norm()",
        "pyproject.toml",
        "123456789",
        '"A4.1.2"',
        "2024/17 circolare",
    ],
)
def test_an_identifier_gets_no_hypothesis(text: str) -> None:
    assert skip_rule(text) == "identifier-like"
    assert skip_rule(text, skip_identifiers=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "how long is the notice period",
        "bread",
        "What is the e-mail of the landlord?",
        "how do I repair the meter after error ERR-4711",
        "rent in 2024",
        "Wie heißt der Vermieter?",
        "家賃はいくらですか",
        "U.S. tenants",
        "well-being",
        "",
    ],
)
def test_a_question_in_words_gets_a_hypothesis(text: str) -> None:
    assert skip_rule(text) is None


def test_a_long_question_gets_no_hypothesis() -> None:
    assert skip_rule("word " * 64, max_words=64) is None
    assert skip_rule("word " * 65, max_words=64) == "long: 65 words"


def test_the_longest_question_is_checked_quickly() -> None:
    for part in ("a-", "_", "a_", "aA", "a.a-"):
        assert skip_rule(f"{part * 2_000}!a") is None


def test_a_prompt_is_found_by_name_or_language_or_is_a_text_itself() -> None:
    assert prompt_of(None, language="it") == prompt_of("it", language="en")
    assert prompt_of(None, language="xx") == prompt_of("en", language="it")
    assert prompt_of("Say {question}", language="en") == "Say {question}"


def test_braces_in_a_question_have_no_meaning() -> None:
    assert filled("Say {question}", "{0} {x} %s") == "Say {0} {x} %s"
