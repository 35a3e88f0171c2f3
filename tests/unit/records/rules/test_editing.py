"""What differs between rules, and rules as a text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import WrongDeclaration
from models.rules import read_rules
from records.rules.editing import RulesFile, difference, free_name, rules_file, toml_of


def test_two_versions_differ_in_rules_that_were_added_changed_and_removed() -> None:
    one = read_rules({"pin": {"returns": {"questions": ["a"], "documents": ["d"]}}})
    block = {"old": {"documents": ["x"]}}
    two = read_rules({"pin": {"returns": {"questions": ["b"], "documents": ["d"]}}, "block": block})
    assert difference(one, two) == {"added": ["old"], "changed": ["returns"], "removed": []}
    assert difference(two, read_rules({"block": block}))["removed"] == ["returns"]
    named = read_rules({"block": {"how-do-i": {"documents": ["x"]}}})
    assert (free_name(named, "How do I…"), free_name(named, "東京")) == ("how-do-i-2", "rule")


_TEXT = st.text(min_size=1, max_size=20).filter(lambda text: any(map(str.isalnum, text)) and "\0" not in text)


@given(question=_TEXT, document=_TEXT, word=_TEXT)
@settings(max_examples=25)
def test_a_text_of_toml_is_read_back_as_it_was(question: str, document: str, word: str) -> None:
    tables = {
        "pin": {"a": {"questions": [question, "b"], "documents": [document]}},
        "block": {"c": {"documents": [document]}},
        "synonyms": {"d": {"words": [word], "means": [question]}},
    }
    file = RulesFile.model_validate({"namespace": "shop", "version": 7, **tables})
    assert rules_file(toml_of(file)) == file
    assert rules_file(file.model_dump_json()) == file
    assert file.rules == read_rules(tables)


MANY_DOCUMENTS = {f"r{n}": {"documents": [f"{n}-{m}" for m in range(100)]} for n in range(3)}
LONG_WORDS = {f"r{n}": {"words": [f"{m}{'x' * 250}" for m in range(100)]} for n in range(6)}


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"pins": {}}, "pins: unknown field; the fields are pin, block, synonyms, weights"),
        (
            {"pin": {"a": {"contains": ["x"], "document": ["d"], "documents": ["d"]}}},
            r"pin\.a\.document: unknown field; the fields are questions, contains, documents",
        ),
        ({"pin": {"A b": {}}}, r"a name has 1 to 64 of the characters a-z, 0-9, - and _"),
        ({"pin": {"a": {"documents": ["d"]}}}, r"pin\.a: a pin needs `questions` or `contains`"),
        ({"pin": {"a": {"questions": ["q"]}}}, r"pin\.a\.documents: Field required"),
        ({"block": {"a": {"documents": ["d" * 513]}}}, r"block\.a\.documents\.0: .* at most 512 characters"),
        ({"block": {"a": {"documents": ["d\0"]}}}, r"the character U\+0000 is not allowed"),
        ({"synonyms": {"a": {"words": ["?!", "b"]}}}, r"words\.0: at least one letter or digit is needed"),
        ({"synonyms": {"a": {"words": ["b"]}}}, r"synonyms\.a: synonyms need two `words`, or `means`"),
        ({"synonyms": {"a": {"words": ["w" * 257, "b"]}}}, r"words\.0: .* at most 256 characters"),
        ({"synonyms": {"a": {"words": [f"w{n}" for n in range(101)]}}}, r"words: .* at most 100 items"),
        ({"block": MANY_DOCUMENTS}, "block: at most 200 documents, not 300"),
        ({"block": {f"r{n}": {"documents": ["d"]} for n in range(1_001)}}, "at most 1,000 rules, not 1,001"),
        ({"synonyms": LONG_WORDS}, "at most 131,072 bytes as JSON"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_field_and_what_is_allowed(rules: Any, says: str) -> None:
    with pytest.raises(WrongDeclaration, match=says):
        read_rules(rules)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "neither TOML nor JSON"),
        ("[pin", "neither TOML nor JSON"),
        ("{" + '"a":[' * 100_000, "neither TOML nor JSON"),
        ("", "namespace: Field required"),
        ('namespace = "a"\nversion = "old"', "version: Input should be a valid integer"),
        ('namespace = "a"\nversion = -1', "version: Input should be greater than or equal to 0"),
        ('namespace = "a"\n[pins]', "the fields are pin, block, synonyms, weights, namespace, version"),
    ],
)
def test_a_wrong_file_is_refused_with_its_field_and_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(WrongDeclaration, match=says):
        rules_file(text)
