"""Single changes of rules, and rules as a text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import WrongDeclaration
from models.rules import Rules, read_rules
from records.rules.editing import difference, free_name, rules_from, toml_of, with_rule, without_rules


def test_a_rule_is_added_replaced_and_removed() -> None:
    one = with_rule(Rules(), "pin", "returns", {"questions": ["a"], "contains": [], "documents": ["d"]})
    two = with_rule(one, "block", "old", {"documents": ["x"]})
    three = with_rule(two, "pin", "returns", {"questions": ["b"], "documents": ["d"]})
    assert three.names == ["returns", "old"]
    assert difference(one, three) == {"added": ["old"], "changed": ["returns"], "removed": []}
    assert difference(three, without_rules(three, ["returns"]))["removed"] == ["returns"]
    with pytest.raises(WrongDeclaration, match="no rule is called other; there are: returns, old"):
        without_rules(three, ["returns", "other"])
    with pytest.raises(WrongDeclaration, match="a name is for one rule; more than one is called old"):
        with_rule(three, "synonyms", "old", {"words": ["a", "b"]})
    named = with_rule(Rules(), "block", "how-do-i", {"documents": ["x"]})
    assert (free_name(named, "How do I…"), free_name(named, "東京")) == ("how-do-i-2", "rule")


_TEXT = st.text(min_size=1, max_size=20).filter(lambda text: any(map(str.isalnum, text)) and "\0" not in text)


@given(question=_TEXT, document=_TEXT, word=_TEXT)
def test_a_text_of_toml_is_read_back_as_it_was(question: str, document: str, word: str) -> None:
    rules = read_rules(
        {
            "pin": {"a": {"questions": [question, "b"], "documents": [document]}},
            "block": {"c": {"documents": [document]}},
            "synonyms": {"d": {"words": [word], "means": [question]}},
        }
    )
    assert rules_from(toml_of(rules)) == rules
    assert rules_from(rules.model_dump_json()) == rules


MANY_DOCUMENTS = {f"r{n}": {"documents": [f"{n}-{m}" for m in range(100)]} for n in range(3)}
LONG_WORDS = {f"r{n}": {"words": [f"{m}{'x' * 250}" for m in range(100)]} for n in range(6)}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"pins": {}}, "pins: unknown field"),
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
def test_a_wrong_rule_is_refused_with_its_field_and_what_is_allowed(given: Any, says: str) -> None:
    with pytest.raises(WrongDeclaration, match=says):
        read_rules(given)
    for text in ("{", "[pin", "{" + '"a":[' * 100_000):
        with pytest.raises(WrongDeclaration, match="neither TOML nor JSON"):
            rules_from(text)
