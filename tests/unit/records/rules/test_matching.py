"""Which rules concern a question."""

from __future__ import annotations

import time
import unicodedata
from typing import Any

import pytest
from structlog.testing import capture_logs

from models.plan import QuestionRules
from models.rules import read_rules
from records.rules.matching import Matcher


def question_rules(question: str, **rules: Any) -> QuestionRules:
    return Matcher(read_rules(rules), 1).of(question) or QuestionRules()


@pytest.mark.parametrize(
    "question", ["How do I return a parcel?", "how do i  RETURN a parcel", "HOW DO I RETURN A PARCEL!!"]
)
def test_a_question_is_the_same_without_case_and_punctuation(question: str) -> None:
    pin = {"returns": {"questions": ["How do I return a parcel?"], "documents": ["b", "a"]}}
    assert list(question_rules(question, pin=pin).pinned) == ["b", "a"]
    assert not question_rules(f"{question} now", pin=pin).pinned


@pytest.mark.parametrize(
    ("question", "matches"),
    [
        ("refunds for damaged parcels", True),
        ("a parcel without a refund", True),
        ("refund", False),
        ("gift card", True),
        ("cards and gifts", True),
        ("", False),
        ("???", False),
    ],
)
def test_a_question_contains_all_words_of_an_entry_in_any_order_and_ending(
    question: str, matches: bool
) -> None:
    pin = {"returns": {"contains": ["refund parcel", "gift card"], "documents": ["a"]}}
    assert bool(question_rules(question, pin=pin).pinned) == matches


def test_words_of_other_scripts_and_composed_characters_match() -> None:
    pin = {
        "cafe": {"contains": ["caf\u00e9"], "documents": ["coffee"]},
        "tokyo": {"contains": ["東京"], "documents": ["tokyo"]},
    }
    assert list(question_rules("the cafe\u0301s of Rome", pin=pin).pinned) == ["coffee"]
    assert list(question_rules("東京の天気", pin=pin).pinned) == ["tokyo"]


def test_a_document_is_named_in_any_unicode_form() -> None:
    decomposed = unicodedata.normalize("NFD", "menüs/café.md")
    pin = {"coffee": {"contains": ["coffee"], "documents": [decomposed]}}
    # Documents have their ids in NFC.
    assert list(question_rules("coffee", pin=pin).pinned) == [unicodedata.normalize("NFC", decomposed)]


def test_a_question_gets_at_most_so_many_synonyms_and_pins_and_the_log_says_so() -> None:
    words = {"words": [f"word{number}" for number in range(100)]}
    most = question_rules("word7", synonyms={"many": words, "more": {"words": ["word7", "another"]}})
    assert (len(most.also), most.synonyms) == (32, ("many",))
    pin = {f"pin{n}": {"contains": ["x"], "documents": [f"{n}-{m}" for m in range(90)]} for n in range(3)}
    with capture_logs() as logs:
        assert len(question_rules("x", pin=pin).pinned) == 100
    assert [(line["event"], line["pinned"]) for line in logs] == [("rules left out", 270)]
    assert Matcher(read_rules({}), 0).of("bread") is None


def test_rules_act_in_the_order_in_which_they_are_written_and_a_block_beats_a_pin() -> None:
    when = {"contains": ["bread"]}
    pin = {"second": {**when, "documents": ["c", "a", "gone"]}, "first": {**when, "documents": ["a", "b"]}}
    block = {"always": {"documents": ["gone"]}, "sometimes": {**when, "documents": ["bad"]}}
    rules = question_rules("bread", pin=pin, block=block)
    assert rules.pinned == {"c": "second", "a": "second", "b": "first"}
    assert rules.blocked == {"gone": "always", "bad": "sometimes"}
    assert question_rules("cake", pin=pin, block=block).blocked == {"gone": "always"}


def test_synonyms_go_both_ways_or_one_way_and_are_not_chained() -> None:
    synonyms = {
        "cars": {"words": ["car", "automobile", "motor vehicle"]},
        "tv": {"words": ["tv", "telly"], "means": ["television"]},
        "chain": {"words": ["automobile", "cabriolet"]},
    }
    assert question_rules("used cars", synonyms=synonyms).also == ("automobile", "motor vehicle")
    assert question_rules("motor vehicles with a telly", synonyms=synonyms) == QuestionRules(
        also=("car", "automobile", "television"), synonyms=("cars", "tv")
    )
    assert question_rules("a motor without a vehicle", synonyms=synonyms).also == ()
    assert question_rules("television", synonyms=synonyms).also == ()
    # What the question has already is not added.
    assert question_rules("car or automobile", synonyms=synonyms).also == ("motor vehicle", "cabriolet")


def test_the_most_rules_that_are_allowed_match_the_longest_question_in_little_time() -> None:
    """All of them, which is the worst: 64 questions of a request have to be matched before it is planned."""
    words = [f"w{number}" for number in range(100)]
    pins = {}
    for n in range(900):
        contains = [f"{words[n % 100]} {words[(n * 7 + m) % 100]}" for m in range(8)]
        pins[f"p{n}"] = {"contains": contains, "documents": ["d"]}
    matcher = Matcher(read_rules({"pin": pins}), 1)
    question = " ".join(words * 20)
    matcher.of(question)
    begun_s = time.process_time()
    assert matcher.of(question) is not None
    assert time.process_time() - begun_s < 0.5
