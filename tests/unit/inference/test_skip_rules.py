"""The questions for which no hypothesis is written, and the prompts."""

from __future__ import annotations

import pytest

from inference.endpoints.language_models import filled, prompt_of, skip_rule

CODES = ["ERR-4711", "error ERR-4711 meaning?", "CVE-2024-12345", "0x80070005", '"A4.1.2"']
NAMES = ["get_user_by_id", "getUserById", "numpy.linalg.norm()", "pyproject.toml"]
NUMBERS = ["123456789", "2024/17 circolare"]


@pytest.mark.parametrize("text", [*CODES, *NAMES, *NUMBERS])
def test_an_identifier_gets_no_hypothesis(text: str) -> None:
    assert skip_rule(text) == "identifier-like"
    assert skip_rule(text, skip_identifiers=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "how long is the notice period",
        "What is the e-mail of the landlord?",
        "how do I repair the meter after error ERR-4711",
        "Wie heißt der Vermieter?",
        *("bread", "rent in 2024", "家賃はいくらですか", "U.S. tenants", "well-being", ""),
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
    # Braces in a question have no meaning.
    assert filled("Say {question}", "{0} {x} %s") == "Say {0} {x} %s"
