"""The language models that branches may ask: their options in a pipeline file, and the ones of this process.

Each is created when it is first needed.
"""

from __future__ import annotations

import hashlib
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from config.declarations import Pipeline
from config.model_declarations import checked_address, key_in
from ledger.caches import Cache, CachedTexts
from models.declarations.extensions import Declared, Variable

if TYPE_CHECKING:
    from inference.endpoints.chat import ChatModel
    from ledger.caches import Write


AddTokens = Callable[[int], None]


def _address(url: str) -> str:
    if urlsplit(checked_address(url)).path.rstrip("/").endswith("/chat/completions"):
        raise ValueError("an address ends before /chat/completions, which each request adds")
    return url


class Writer(NamedTuple):
    """A function that writes texts for the questions of a branch."""

    write: Write
    is_whole: Callable[[tuple[str, ...]], bool]
    """Whether a question has all the texts that its branch declares; only then they are cached."""


class Endpoint(Declared):
    """An OpenAI-compatible chat endpoint; a branch may declare none."""

    url: Annotated[str, AfterValidator(_address)] | None = None
    """The address up to and including `/v1`; a query (`?api-version=...`) is sent with each request."""
    model: str | None = Field(None, min_length=1, max_length=256)
    api_key_env: Variable | None = None
    """The environment variable that holds the key; not declared: no key is sent."""
    temperature: float = Field(0.7, ge=0, le=2, strict=False)
    """Several documents are worth their cost only if they differ (Gao et al. 2022 use 0.7)."""
    max_tokens: int = Field(256, ge=0, le=8_192)
    """Maximum tokens of one text; 0: the field is not sent, for models that refuse it."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Further fields of each request's body, which replace ours: `{ reasoning_effort = "low" }`."""
    limit_s: float = Field(5, ge=0.05, le=60, strict=False)
    """Maximum seconds of the model for a request, all attempts together."""
    least_s: float = Field(0.5, ge=0.01, le=60, strict=False)
    """The model is not asked with fewer seconds left: it would seldom answer in time, and costs the same."""
    skip_identifiers: bool = True
    """Do not ask the model about error codes and names in programs, of which it knows nothing."""
    max_words: int = Field(64, ge=1, le=2_000)
    """The model is not asked about longer questions: they are passages themselves."""

    @property
    @abstractmethod
    def calls_model(self) -> bool: ...

    @property
    def is_foreign(self) -> bool:
        """Whether the generator of a package writes the texts; it has its own endpoint."""
        return False

    @model_validator(mode="after")
    def _has_its_endpoint(self) -> Endpoint:
        endpoint_fields = self.model_fields_set & Endpoint.model_fields.keys()
        if self.calls_model and not self.is_foreign and (self.url is None or self.model is None):
            raise ValueError("a language model needs url and model")
        if not self.calls_model and endpoint_fields:
            raise ValueError(f"without a language model there is no {', '.join(sorted(endpoint_fields))}")
        if self.least_s > self.limit_s:
            raise ValueError("least_s is above limit_s: the model would never be asked")
        return self

    def api_key(self) -> str | None:
        """Raises NotConfigured if the variable is not set."""
        return key_in(self.api_key_env)

    def fingerprint(self, prompt: str) -> str:
        """Equal for options that lead to the same call of the model."""
        options = self.model_dump_json(exclude={"url", "api_key_env", "limit_s", "least_s"})
        return hashlib.sha256(f"{options}\n{prompt}".encode()).hexdigest()[:16]

    @abstractmethod
    def prompt_text(self, language: str) -> str:
        """The prompt, in an installation of this language."""

    @abstractmethod
    def open_writer(self, language: str, variants: frozenset[str], add_tokens: AddTokens) -> Writer:
        """`variants`: the kinds of variants to write.  Raises NotConfigured."""

    def feedback_from(self, own_store: str) -> str | None:
        """The store whose best passages replace the model's texts; None: nothing replaces them."""
        return None

    def open_chat(self, add_tokens: AddTokens = lambda tokens: None) -> ChatModel:
        """Raises NotConfigured if the key is missing."""
        from inference.endpoints.chat import ChatModel

        return ChatModel(
            url=str(self.url),
            model=str(self.model),
            api_key=self.api_key(),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            fields=self.fields,
            add_tokens=add_tokens,
        )


class Generators:
    """Thread-safe.  `shared` is the cache of all processes; `language` chooses the default prompt."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        language: str,
        shared: Cache,
        tokens_counter: Callable[[str], AddTokens] = lambda branch: lambda tokens: None,
    ) -> None:
        """`tokens_counter(branch)` is called with the tokens that the branch's model reports as used."""
        self._branches = {branch.name: branch for branch in pipeline.branches}
        self._kinds = {branch.name: pipeline.kinds.branches[branch.kind] for branch in pipeline.branches}
        self._options = {
            name: kind.options(**self._branches[name].options)
            for name, kind in self._kinds.items()
            if isinstance(kind.options, type) and issubclass(kind.options, Endpoint)
        }
        self._language = language
        self._shared = shared
        self._tokens_counter = tokens_counter
        self._made: dict[str, CachedTexts] = {}
        self.document_s = 0.0
        """Recent seconds to embed one written document; 0 before the first."""
        self._lock = threading.Lock()

    def options(self, branch: str) -> Endpoint | None:
        """The branch's options in this process's pipeline file; None if it cannot ask a model, or is not declared."""
        return self._options.get(branch)

    def of(self, branch: str) -> CachedTexts:
        """Raises NotConfigured if the key is missing."""
        with self._lock:
            if branch not in self._made:
                self._made[branch] = self._make(branch)
            return self._made[branch]

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each model that is asked, by `generator:<branch>`; answers depend on it."""
        return {
            generator_name(name): options.fingerprint(options.prompt_text(self._language))
            for name, options in self._options.items()
            if options.calls_model
        }

    @property
    def feedback_stores(self) -> list[str]:
        """The store of the passages that replace written documents, for each branch that uses such passages."""
        stores = (
            options.feedback_from(self._branches[name].store) for name, options in self._options.items()
        )
        return [store for store in stores if store is not None]

    def _make(self, branch: str) -> CachedTexts:
        options, declared = self._options[branch], self._branches[branch]
        write, is_whole = options.open_writer(
            self._language, self._kinds[branch].variants, self._tokens_counter(branch)
        )
        return CachedTexts(
            write,
            fingerprint=f"{declared.kind}:{options.fingerprint(options.prompt_text(self._language))}",
            cache=self._shared,
            is_whole=is_whole,
        )


def generator_name(branch: str) -> str:
    """The name of a branch's language model in breakers and fingerprints; a branch's name has no colon."""
    return f"generator:{branch}"
