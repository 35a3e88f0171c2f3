"""The rules of a namespace: documents that come first or never for some questions, words that mean the same, and weights.

A caller writes them as TOML or JSON: the tables `pin`, `block`, `synonyms` and `weights`, each with rules by name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeAlias, TypeVar

from chorale_client.errors import describe_faults
from chorale_client.limits import (
    MAX_BLOCKED,
    MAX_ID_CHARS,
    MAX_PHRASE_CHARS,
    MAX_PHRASES,
    MAX_RULE_DOCUMENTS,
    MAX_RULES,
    MAX_RULES_BYTES,
)
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from models.errors import WrongDeclaration


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("the character U+0000 is not allowed")
    return value


def _with_a_word(value: str) -> str:
    if not any(char.isalnum() for char in value):
        raise ValueError("at least one letter or digit is needed")
    return _without_nul(value)


def _name(value: str) -> str:
    if not re.fullmatch("[a-z0-9][a-z0-9_-]{0,63}", value):
        raise ValueError(
            "a name has 1 to 64 of the characters a-z, 0-9, - and _, and begins with a letter or digit"
        )
    return value


def _composed(value: str) -> str:
    """Documents have their ids in this form, too."""
    return unicodedata.normalize("NFC", value)


Name: TypeAlias = Annotated[str, AfterValidator(_name)]
Phrase: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_PHRASE_CHARS), AfterValidator(_with_a_word)
]
DocumentId: TypeAlias = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_ID_CHARS),
    AfterValidator(_without_nul),
    AfterValidator(_composed),
]
Phrases: TypeAlias = Annotated[tuple[Phrase, ...], Field(max_length=MAX_PHRASES)]
DocumentIds: TypeAlias = Annotated[tuple[DocumentId, ...], Field(min_length=1, max_length=MAX_RULE_DOCUMENTS)]


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _When(_Rule):
    questions: Phrases = Field((), description="For these questions, without regard to case and punctuation")
    contains: Phrases = Field(
        (), description="For each question with all words of one of these, in any order and with any ending"
    )


class Pin(_When):
    """Documents that come first for some questions."""

    documents: DocumentIds = Field(description="Ids, in the order in which they come first")

    @model_validator(mode="after")
    def _has_questions(self) -> Self:
        if not self.questions and not self.contains:
            raise ValueError("a pin needs `questions` or `contains`")
        return self


class Block(_When):
    """Documents that are in no answer, or in no answer to some questions."""

    documents: DocumentIds


class Synonyms(_Rule):
    """Words that BM25 searches too: each for each other, or `means` for `words`."""

    words: Phrases = Field(min_length=1)
    means: Phrases = Field((), description="Searched for `words`, but not the other way round")

    @model_validator(mode="after")
    def _has_two_sides(self) -> Self:
        if not self.means and len(self.words) < 2:
            raise ValueError("synonyms need two `words`, or `means`")
        return self


class Weights(_Rule):
    """The weights of a configuration in this namespace, instead of those that the pipeline file declares."""

    configuration: Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARS)]
    branches: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        description="Weights by branch; a branch without one has its declared weight"
    )

    @model_validator(mode="after")
    def _has_weight(self) -> Self:
        if not any(self.branches.values()):
            raise ValueError("branches: at least one weight must be above 0")
        return self


class Rules(_Rule):
    """All rules of a namespace, by name."""

    pin: dict[Name, Pin] = Field(default_factory=dict)
    block: dict[Name, Block] = Field(default_factory=dict)
    synonyms: dict[Name, Synonyms] = Field(default_factory=dict)
    weights: dict[Name, Weights] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_within_limits(self) -> Self:
        names = self.names
        if (
            twice := sorted({name for name in names if names.count(name) > 1})
            if len(names) <= MAX_RULES
            else ()
        ):
            raise ValueError(f"a name is for one rule; more than one is called {', '.join(twice)}")
        if len(names) > MAX_RULES:
            raise ValueError(f"at most {MAX_RULES:,} rules, not {len(names):,}")
        weighted = [rule.configuration for rule in self.weights.values()]
        if len(set(weighted)) < len(weighted):
            raise ValueError("weights: two rules are for the same configuration")
        blocked = {document for rule in self.block.values() for document in rule.documents}
        if len(blocked) > MAX_BLOCKED:
            raise ValueError(
                f"block: at most {MAX_BLOCKED:,} documents, not {len(blocked):,}; delete what nobody may find"
            )
        if (size := len(self.model_dump_json().encode())) > MAX_RULES_BYTES:
            raise ValueError(f"at most {MAX_RULES_BYTES:,} bytes as JSON, not {size:,}")
        return self

    @property
    def names(self) -> list[str]:
        return [*self.pin, *self.block, *self.synonyms, *self.weights]

    def weights_of(self, configuration: str) -> tuple[str, Weights] | None:
        """The rule with the weights of this configuration, and its name."""
        return next(
            ((name, rule) for name, rule in self.weights.items() if rule.configuration == configuration), None
        )


_KINDS: Mapping[str, type[_Rule]] = {"pin": Pin, "block": Block, "synonyms": Synonyms, "weights": Weights}
Read = TypeVar("Read", bound=Rules)


def read_rules(value: Any) -> Rules:
    """Raises WrongDeclaration, as `read_as` does."""
    return read_as(Rules, value)


def read_as(model: type[Read], value: Any) -> Read:
    """Raises WrongDeclaration, which names the field and what is allowed there."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        faults: list[Any] = error.errors(include_url=False, include_input=False)
        for fault in faults:
            if fault["type"] == "extra_forbidden":
                kind = model if len(fault["loc"]) == 1 else _KINDS[fault["loc"][0]]
                fault |= {
                    "type": "unknown",
                    "msg": f"unknown field; the fields are {', '.join(kind.model_fields)}",
                }
        raise WrongDeclaration(describe_faults(faults, place="rules")) from None
