"""Options of the branches that may ask a language model: a table's fields, their ranges and their reasons."""

from __future__ import annotations

import hashlib
import os
import re
from abc import abstractmethod
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from config import extensions
from config.declarations import Declared
from models.errors import NotConfigured, WrongDeclaration

HYPOTHESIS_PROMPTS = ("en", "de", "es", "fr", "it", "en-science", "en-law", "en-support", "it-law")
GENERATORS = ("feedback", "openai")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ValueError("an address is http://HOST/v1 or https://HOST/v1")
    if "@" in parts.netloc:
        raise ValueError("no key belongs in an address: name its variable in api_key_env")
    if "#" in url:
        raise ValueError("an address has no fragment (#)")
    if parts.path.rstrip("/").endswith("/chat/completions"):
        raise ValueError("an address ends before /chat/completions, which each request adds")
    return url


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        # Not quoted: it may be the key itself.
        raise ValueError("the name of an environment variable, never the key itself")
    return name


def _prompt(text: str) -> str:
    if text not in HYPOTHESIS_PROMPTS and "{question}" not in text:
        named = ", ".join(HYPOTHESIS_PROMPTS)
        raise ValueError(f"no prompt {text[:80]!r}; there are: {named}, or a text that holds {{question}}")
    return text


class Endpoint(Declared):
    """An OpenAI-compatible chat endpoint, where one is declared."""

    url: Annotated[str, AfterValidator(_address)] | None = None
    """Up to and with its `/v1`; a query (`?api-version=...`) goes with each request."""
    model: str | None = Field(None, min_length=1, max_length=256)
    api_key_env: Annotated[str, AfterValidator(_variable)] | None = None
    """The environment variable that holds the key; without it none is sent."""
    temperature: float = Field(0.7, ge=0, le=2, strict=False)
    """Several documents are worth their cost where they differ (Gao et al. 2022: .7)."""
    max_tokens: int = Field(256, ge=0, le=8_192)
    """Of one text; 0: not sent, for models that refuse it."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Further fields of each request's body, in place of ours: `{ reasoning_effort = "low" }`."""
    limit_s: float = Field(5, ge=0.05, le=60, strict=False)
    """Seconds that the model may take for a request, attempts included."""
    least_s: float = Field(0.5, ge=0.01, le=60, strict=False)
    """With fewer seconds left it is not asked: it would seldom be in time, and costs all the same."""
    skip_identifiers: bool = True
    """Of an error code or a name in a program the model knows nothing."""
    max_words: int = Field(64, ge=1, le=2_000)
    """A longer question is a passage itself."""

    @property
    @abstractmethod
    def asks_a_model(self) -> bool: ...

    @property
    def is_foreign(self) -> bool:
        """Whether a package from outside writes, which knows by itself whom to ask."""
        return False

    @model_validator(mode="after")
    def _has_its_endpoint(self) -> Endpoint:
        given = self.model_fields_set & Endpoint.model_fields.keys()
        if self.asks_a_model and not self.is_foreign and (self.url is None or self.model is None):
            raise ValueError("a language model needs url and model")
        if not self.asks_a_model and given:
            raise ValueError(f"without a language model there is no {', '.join(sorted(given))}")
        if self.least_s > self.limit_s:
            raise ValueError("least_s is above limit_s: the model would never be asked")
        return self

    def api_key(self) -> str | None:
        """Raises NotConfigured where the variable is not set."""
        if self.api_key_env is None:
            return None
        if key := os.environ.get(self.api_key_env, "").strip():
            return key
        raise NotConfigured(f"the variable {self.api_key_env}, which api_key_env names, is not set")

    def fingerprint(self, prompt: str) -> str:
        """Equal where the model would be asked for the same."""
        said = self.model_dump_json(exclude={"url", "api_key_env", "limit_s", "least_s"})
        return hashlib.sha256(f"{said}\n{prompt}".encode()).hexdigest()[:16]


class HydeOptions(Endpoint):
    """Where the vector of the `hyde` kind comes from."""

    generator: str = "feedback"
    """`feedback`: the best BM25 passages, without a language model; `openai`: hypothetical documents; else a package's."""
    generator_options: dict[str, Any] = Field(default_factory=dict)
    """Of a package's generator."""
    prompt: Annotated[str, AfterValidator(_prompt)] | None = Field(None, max_length=8_192)
    """A name in the table, or a text that holds `{question}`.  Not given: that of the installation's language."""
    documents: int = Field(4, ge=1, le=16)
    """Hypothetical documents a question, averaged with it (Gao et al. 2022); up to 64 of a request are written at the
    same time."""
    fallback: Literal["feedback", "none"] = "feedback"
    """What stands in where the model is not asked or fails; `none`: the branch is left out."""

    feedback_store: str | None = None
    """The store whose BM25 finds the passages of feedback, where that is not the branch's own: an engine for texts
    beside one for vectors."""

    @property
    def asks_a_model(self) -> bool:
        return self.generator != "feedback"

    @property
    def is_foreign(self) -> bool:
        return self.generator not in GENERATORS

    @model_validator(mode="after")
    def _is_in_the_tables(self) -> HydeOptions:
        if self.generator not in (known := extensions.choices("generator", GENERATORS)):
            raise ValueError(f"no generator {self.generator[:80]!r}; there are: {', '.join(known)}")
        if (why_not := extensions.claimed("generator", self.generator, GENERATORS)) is not None:
            raise ValueError(why_not)
        if self.is_foreign:
            try:
                extensions.load("generator", self.generator)
            except WrongDeclaration as error:
                raise ValueError(str(error)) from error
        elif self.generator_options:
            raise ValueError(f"the generator {self.generator!r} has no generator_options")
        return self


class ExpansionOptions(Endpoint):
    """Of the `bm25` and `vector` kinds: whether a language model rewrites the question for this branch."""

    expansion: Literal["none", "openai"] = "none"
    replace: bool = False
    """Search with the rewrites alone.  Then, without them, the branch is left out, since it would be a copy of one
    that searches the question itself."""

    @property
    def asks_a_model(self) -> bool:
        return self.expansion == "openai"
