"""What language models write: hypothetical documents and rewrites of questions; and the tokens that they read.

A prompt is chosen by language and domain; `{question}` stands for the question.  Hypothetical documents follow Gao et al. 2022
(HyDE): a short passage in the manner of what is indexed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import from_json

from inference.concurrency import LazyValue
from models.declarations.extensions import GenerationResult, PartialGeneration
from models.errors import InvalidAnswer, StageFailure

if TYPE_CHECKING:
    from inference.endpoints.chat import ChatModel

QUESTION_PLACE = "{question}"

HYPOTHESIS_PROMPTS: Mapping[str, str] = {
    "en": "Write a short passage, at most 100 words, that answers the question. Give the passage alone.\n"
    "Question: {question}\nPassage:",
    "de": "Schreibe einen kurzen Absatz von höchstens 100 Wörtern, der die Frage beantwortet. Gib nur den Absatz "
    "aus.\nFrage: {question}\nAbsatz:",
    "es": "Escribe un pasaje breve, de 100 palabras como máximo, que responda a la pregunta. Da solo el pasaje.\n"
    "Pregunta: {question}\nPasaje:",
    "fr": "Écris un court passage, de 100 mots au plus, qui répond à la question. Donne le passage seul.\n"
    "Question : {question}\nPassage :",
    "it": "Scrivi un breve brano, di 100 parole al massimo, che risponda alla domanda. Scrivi soltanto il brano.\n"
    "Domanda: {question}\nBrano:",
    "en-science": "Write a short passage of a scientific paper, at most 100 words, that supports or refutes the "
    "claim. Give the passage alone.\nClaim: {question}\nPassage:",
    "en-law": "Write a short passage of a statute, rule or guideline, at most 100 words, that governs the question. "
    "Give the passage alone.\nQuestion: {question}\nPassage:",
    "en-support": "Write a short entry of a handbook or help page, at most 100 words, that solves the problem. Give "
    "the entry alone.\nProblem: {question}\nEntry:",
    "it-law": "Scrivi un breve passo di una legge, circolare o risoluzione, di 100 parole al massimo, che disciplini "
    "la questione. Scrivi soltanto il passo.\nQuestione: {question}\nPasso:",
}
"""Key: the name that a pipeline declares; the default is the installation's language, else English."""

EXPANSION_PROMPT = (
    "Rewrite the search question in its own language. Answer with one JSON object and nothing else, with the fields "
    '"keyword" (the words that a fitting document would contain, synonyms among them), "semantic" (the question as '
    'one plain sentence) and "entity" (names, codes and identifiers of the question, or "").\n'
    "Question: {question}\nJSON:"
)


def prompt_of(name: str | None, *, language: str) -> str:
    """The prompt with this name, or `name` itself if it is a prompt; None: the language's prompt, else English."""
    if name is None:
        return HYPOTHESIS_PROMPTS.get(language, HYPOTHESIS_PROMPTS["en"])
    return HYPOTHESIS_PROMPTS.get(name, name)


def filled(prompt: str, question: str) -> str:
    """Insert the question; braces in the question have no meaning."""
    return prompt.replace(QUESTION_PLACE, question)


_WORD = re.compile(r"\S+")
_IDENTIFIER = re.compile(
    r"""(?=.*\d)(?=.*[^\W\d_]|.*[-_./:]).{3,}   # ERR-4711, CVE-2024-1234, 0x80070005, 2024/123, A4.1
      | [^\W_]+(?:_+[^\W_]+)+ | [a-z]+[A-Z]\w*  # snake_case, camelCase
      | \w[\w-]+(?:\.\w[\w-]+)+(?:\(\))?        # module.name, file.toml
      | \d{5,}""",
    re.VERBOSE,
)
MAX_OTHER_WORDS = 2
"""`error ERR-4711 meaning` is about the identifier; with more other words the question has a meaning of its own."""


def skip_rule(text: str, *, skip_identifiers: bool = True, max_words: int = 64) -> str | None:
    """Why no hypothesis is written for this question, or None.

    A model knows nothing about an identifier (an error code, a name in a program) and would invent an answer.  A question
    of more than `max_words` words already resembles a passage.
    """
    words = [word.strip("\"'`“”„«»()[]?!,;.") for word in _WORD.findall(text)]
    words = [word for word in words if word]
    if len(words) > max_words:
        return f"long: {len(words)} words"
    identifiers = [word for word in words if _IDENTIFIER.fullmatch(word)]
    if skip_identifiers and identifiers and len(words) - len(identifiers) <= MAX_OTHER_WORDS:
        return "identifier-like"
    return None


MAX_VARIANT_CHARS = 1_000


class OpenAiExpander:
    """Rewrites questions; one prompt for a question asks for all `kinds`: some of `keyword`, `semantic`, `entity`."""

    def __init__(self, chat: ChatModel, *, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)
        self._chat = chat

    def expand(self, texts: Sequence[str], *, timeout_s: float) -> list[tuple[str, ...] | StageFailure]:
        """For each question one text for each kind (`""` for none), or why it failed.  Raises nothing."""
        written = self._chat.complete([filled(EXPANSION_PROMPT, text) for text in texts], timeout_s=timeout_s)
        return [result if isinstance(result, StageFailure) else self._read(result) for result in written]

    def _read(self, written: str) -> tuple[str, ...] | StageFailure:
        # Models often put a code fence or a sentence around the JSON.
        try:
            wire = from_json(written[written.index("{") : written.rindex("}") + 1])
        except ValueError:
            return InvalidAnswer("the expansion is no JSON object")
        variants = tuple(_plain(wire.get(kind)) for kind in self.kinds)
        return variants if any(variants) else InvalidAnswer(f"no expansion of {', '.join(self.kinds)}")


def _plain(value: object) -> str:
    if isinstance(value, list):
        value = " ".join(text for text in value if isinstance(text, str))
    return " ".join(value.split())[:MAX_VARIANT_CHARS] if isinstance(value, str) else ""


class OpenAiGenerator:
    """Implements `HypothesisGenerator`: `documents` texts for each question, each from its own call.

    Many endpoints ignore the protocol's `n`; with separate calls, those that end in time are used.
    """

    def __init__(self, chat: ChatModel, *, prompt: str, documents: int) -> None:
        self._chat = chat
        self._prompt = prompt
        self._documents = documents

    def imagine(self, texts: Sequence[str], *, timeout_s: float) -> list[GenerationResult]:
        prompts = [filled(self._prompt, text) for text in texts for _ in range(self._documents)]
        written = [_passage(answer) for answer in self._chat.complete(prompts, timeout_s=timeout_s)]
        return [
            _generation_result(written[first : first + self._documents])
            for first in range(0, len(written), self._documents)
        ]


def _passage(written: str | StageFailure) -> str | StageFailure:
    from inference.endpoints.written_answers import passage

    try:
        return written if isinstance(written, StageFailure) else passage(written)
    except InvalidAnswer as wrong:
        return wrong


def _generation_result(written: Sequence[str | StageFailure]) -> GenerationResult:
    documents = tuple(result for result in written if isinstance(result, str))
    first = next((result for result in written if isinstance(result, StageFailure)), None)
    if first is None:
        return documents
    if not documents:
        return first
    detail = f"{len(documents)} of {len(written)} documents: {first.detail}"
    return PartialGeneration(documents, type(first)(detail))


class TokenizerFile:
    """The file is read at the first use."""

    def __init__(self, path: Path) -> None:
        # Here, since few processes count tokens, and the library takes time to import.
        from inference.onnx.word_pieces import read_tokenizer

        self._path = path
        self._tokenizer = LazyValue(lambda: read_tokenizer(path))

    @property
    def fingerprint(self) -> str:
        """The hash of the file; its path if it cannot be read."""
        try:
            return hashlib.sha256(self._path.read_bytes()).hexdigest()[:16]
        except OSError:
            return str(self._path)

    def count(self, text: str) -> int:
        """The number of tokens without special tokens.  Raises ModelMissing."""
        from inference.onnx.word_pieces import whole_characters

        return len(self._tokenizer().encode(whole_characters(text), add_special_tokens=False).ids)
