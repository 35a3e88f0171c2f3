"""The language models that the branches of this process ask, each made when it is first needed."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from cache.hypotheses import CachedTexts, Write
from cache.memory import MemoryCache
from cache.protocol import Cache
from config import extensions
from config.generators import Endpoint, ExpansionOptions, HydeOptions
from config.pipeline import BRANCH_KINDS, BranchDeclaration, Pipeline
from fusion.question_variants import DENSE, LEXICAL
from inference.prompts import EXPANSION_PROMPT, prompt_of
from models.errors import NotConfigured, ServiceError

if TYPE_CHECKING:
    from inference.chat_model import ChatModel
    from inference.protocol import HypothesisGenerator

KEPT_HERE = 1_000
KINDS_OF = {"bm25": tuple(sorted(LEXICAL)), "vector": tuple(sorted(DENSE))}
"""Which variants a branch of each kind asks for."""


class Generators:
    """Thread-safe.  `shared` is the cache of all processes; `language` chooses the prompt where none is declared."""

    def __init__(self, pipeline: Pipeline, *, language: str, shared: Cache) -> None:
        self._branches = {branch.name: branch for branch in pipeline.branches}
        self._options = {
            name: kind(**branch.options)
            for name, branch in self._branches.items()
            if isinstance(kind := BRANCH_KINDS.get(branch.kind), type) and issubclass(kind, Endpoint)
        }
        self._language = language
        self._shared = shared
        self._made: dict[str, CachedTexts] = {}
        self.document_s = 0.0
        """Seconds to embed a document that was written, lately; 0 before the first."""
        self._lock = threading.Lock()

    def options(self, branch: str) -> Endpoint | None:
        """What this process's own declaration says of the branch; None where it knows none, or none of that sort."""
        return self._options.get(branch)

    def of(self, branch: str) -> CachedTexts:
        """Raises NotConfigured: without its key, or without the `openai` package."""
        with self._lock:
            if branch not in self._made:
                self._made[branch] = self._make(self._branches[branch])
            return self._made[branch]

    @property
    def fingerprints(self) -> dict[str, str]:
        """By `generator:<branch>`, of the branches that ask a model: what an answer depends on."""
        return {
            generator_name(name): options.fingerprint(self._prompt(options))
            for name, options in self._options.items()
            if options.asks_a_model
        }

    @property
    def feedback_stores(self) -> list[str]:
        """Where the passages come from that stand in for documents, of each `hyde` branch that takes any."""
        return [
            options.feedback_store or self._branches[name].store
            for name, options in self._options.items()
            if isinstance(options, HydeOptions)
            and (options.fallback == "feedback" or not options.asks_a_model)
        ]

    def _prompt(self, options: Endpoint) -> str:
        if isinstance(options, HydeOptions):
            return prompt_of(options.prompt, language=self._language)
        return EXPANSION_PROMPT

    def _make(self, branch: BranchDeclaration) -> CachedTexts:
        options = self._options[branch.name]
        if isinstance(options, HydeOptions) and options.is_foreign:
            return self._cached(branch, open_generator(options).imagine, is_whole=bool)
        chat = open_chat(options)
        from inference.openai_expander import OpenAiExpander
        from inference.openai_generator import OpenAiGenerator

        write: Write
        if isinstance(options, HydeOptions):
            write = OpenAiGenerator(chat, prompt=self._prompt(options), documents=options.documents).imagine
            whole = options.documents
        else:
            assert isinstance(options, ExpansionOptions)
            kinds = KINDS_OF[branch.kind]
            write, whole = OpenAiExpander(chat, kinds=kinds).expand, len(kinds)
        return self._cached(branch, write, is_whole=lambda texts: len(texts) == whole)

    def _cached(
        self, branch: BranchDeclaration, write: Write, *, is_whole: Callable[[tuple[str, ...]], bool]
    ) -> CachedTexts:
        options = self._options[branch.name]
        return CachedTexts(
            write,
            fingerprint=f"{branch.kind}:{options.fingerprint(self._prompt(options))}",
            caches=(MemoryCache(max_entries=KEPT_HERE), self._shared),
            is_whole=is_whole,
        )


def open_chat(options: Endpoint) -> ChatModel:
    """Raises NotConfigured: without its key, or without the `openai` package."""
    key = options.api_key()
    if importlib.util.find_spec("openai") is None:
        raise NotConfigured("the openai package is not installed; `make llm` installs it")
    from inference.chat_model import ChatModel

    return ChatModel(
        url=str(options.url),
        model=str(options.model),
        api_key=key,
        temperature=options.temperature,
        max_tokens=options.max_tokens,
        fields=options.fields,
    )


def open_generator(options: HydeOptions) -> HypothesisGenerator:
    """One that a package brings; raises NotConfigured where it does not open."""
    try:
        opened = extensions.load("generator", options.generator).open(options.generator_options)
    except ServiceError:
        raise
    except Exception as error:  # whatever foreign code may raise
        said = f"the generator {options.generator!r} cannot be opened: {type(error).__name__}: {error}"
        raise NotConfigured(said) from error
    return cast("HypothesisGenerator", opened)


def generator_name(branch: str) -> str:
    """A branch's language model among the breakers and the fingerprints; a branch's name has no colon."""
    return f"generator:{branch}"
