"""The `hyde` kind: search with the vector of a hypothetical answer (HyDE, Gao et al. 2022).

Hypothetical documents come from the caller or from a language model.  Otherwise the best BM25 passages replace them
(`feedback`).  A question with neither is left out, because its own vector would only repeat the branch `vector`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

from chorale_client.wire_names import Reason, Stage, StageStatus
from pydantic import AfterValidator, Field, model_validator

from config import extensions
from fusion.rankings import DENSE, LEXICAL
from inference.endpoints.language_models import HYPOTHESIS_PROMPTS, prompt_of
from inference.protocol import HypothesisGenerator
from models.declarations.extensions import BranchKind, PartialGeneration
from models.documents import Matrix
from models.errors import NotConfigured, ServiceError, StageFailure, WrongDeclaration
from models.hits import Ranking
from tasks.branches.generators import AddTokens, Endpoint, Writer

if TYPE_CHECKING:
    from tasks.branches.branch_task import BranchTask, Texts

GENERATORS = ("feedback", "openai")
Passages: TypeAlias = "tuple[Matrix, list[float]]"
"""Vectors of the best BM25 passages, and their BM25 scores."""


def _prompt(text: str) -> str:
    if text not in HYPOTHESIS_PROMPTS and "{question}" not in text:
        named = ", ".join(HYPOTHESIS_PROMPTS)
        raise ValueError(f"no prompt {text[:80]!r}; there are: {named}, or a text that holds {{question}}")
    return text


class HydeOptions(Endpoint):
    """Where the hypothetical documents come from."""

    generator: str = "feedback"
    """`feedback`: the best BM25 passages, no language model; `openai`: a chat endpoint; or the name of a package's."""
    generator_options: dict[str, Any] = Field(default_factory=dict)
    prompt: Annotated[str, AfterValidator(_prompt)] | None = Field(None, max_length=8_192)
    """A name in the table, or a text with `{question}`.  Not declared: the prompt of the installation's language."""
    documents: int = Field(4, ge=1, le=16)
    """Hypothetical documents for each question, averaged with it (Gao et al. 2022); up to 64 of a request are written at
    the same time."""
    fallback: Literal["feedback", "none"] = "feedback"
    """What is used if the model is not asked or fails; `none`: the branch is left out."""
    feedback_store: str | None = None
    """The store whose BM25 finds the feedback passages, if not the branch's own: for an engine of texts beside one of
    vectors."""

    @property
    def calls_model(self) -> bool:
        return self.generator != "feedback"

    @property
    def is_foreign(self) -> bool:
        return self.generator not in GENERATORS

    def prompt_text(self, language: str) -> str:
        return prompt_of(self.prompt, language=language)

    def open_writer(self, language: str, variants: frozenset[str], add_tokens: AddTokens) -> Writer:
        if self.is_foreign:
            return Writer(open_generator(self).imagine, bool)
        chat = self.open_chat(add_tokens)
        from inference.endpoints.language_models import OpenAiGenerator

        generator = OpenAiGenerator(chat, prompt=self.prompt_text(language), documents=self.documents)
        return Writer(generator.imagine, lambda texts: len(texts) == self.documents)

    def feedback_from(self, own_store: str) -> str | None:
        if self.calls_model and self.fallback != "feedback":
            return None
        return self.feedback_store or own_store

    @model_validator(mode="after")
    def _is_in_the_tables(self) -> HydeOptions:
        try:
            extensions.find("generator", self.generator, GENERATORS)
        except WrongDeclaration as error:
            raise ValueError(str(error)) from error
        if self.generator_options and not self.is_foreign:
            raise ValueError(f"the generator {self.generator!r} has no generator_options")
        return self


def open_generator(options: HydeOptions) -> HypothesisGenerator:
    """Open a package's generator; raises NotConfigured if that fails."""
    try:
        opened = extensions.load("generator", options.generator).open(options.generator_options)
    except ServiceError:
        raise
    except Exception as error:  # foreign code may raise anything
        detail = f"the generator {options.generator!r} cannot be opened: {type(error).__name__}: {error}"
        raise NotConfigured(detail) from error
    return cast("HypothesisGenerator", opened)


def search_hyde(task: BranchTask) -> list[Ranking]:
    """If no question has a vector, raises feedback's failure, or the model's if `fallback` is `none`."""
    from tasks.branches.generation import note_failures, worst
    from tasks.branches.model_breakers import NotCalled

    started = task.clock()
    documents: dict[int, Sequence[str]] = {
        index: question.hypothetical_documents
        for index, question in enumerate(task.questions)
        if question.hypothetical_documents
    }
    sources = ["given"] if documents else []
    options = task.resources.generators.options(task.branch.name)
    open_ = [index for index in range(len(task.questions)) if index not in documents]
    failures: list[StageFailure] = []
    falls_back = True
    if isinstance(options, HydeOptions) and options.calls_model:
        task.check_encoder()
        falls_back = options.fallback == "feedback"
        written, failures = _written(task, open_, options, caller_documents=sum(map(len, documents.values())))
        if written:
            documents |= written
            sources.append(options.generator)
    imagined = _embedded(task, documents)
    if late := len(documents) - len(imagined):
        detail = f"no time to embed the documents of {late} of {len(documents)} questions"
        failures.append(NotCalled(Reason.BUDGET, detail))
    open_ = [index for index in range(len(task.questions)) if index not in imagined]
    passages: dict[int, Passages] = {}
    no_feedback: list[StageFailure] = []
    if falls_back and open_:
        try:
            passages = _feedback(task, open_)
            sources.append("feedback")
        except StageFailure as failure:
            no_feedback.append(failure)
    instead = "left out" if no_feedback or not falls_back else "feedback"
    note_failures(task, Stage.HYPOTHESIS, failures, instead)
    note_failures(task, Stage.HYPOTHESIS, no_feedback, "left out")
    failed = None if imagined or falls_back else worst(failures)
    status = StageStatus.OK if sources else StageStatus.FAILED if failed else StageStatus.SKIPPED
    if no_feedback:
        # The others say that no store was asked, and this one's breaker counts.
        status = StageStatus.PARTIAL
        failed = None if imagined else no_feedback[0]
    task.timed(Stage.HYPOTHESIS, started, _detail(sources, [*failures, *no_feedback]), status)
    if failed is not None:
        raise failed
    texts: Texts = [
        weights if index in imagined or index in passages else {}
        for index, weights in enumerate(task.texts_of(DENSE))
    ]
    return task.search_vectors(_moved(task, texts, imagined, passages), map(len, texts))


def _written(
    task: BranchTask, indices: Sequence[int], options: HydeOptions, *, caller_documents: int
) -> tuple[dict[int, tuple[str, ...]], list[StageFailure]]:
    """What the model wrote for these questions, and the failures of the questions for which it wrote nothing.

    Notes where the model wrote fewer documents than declared.  `caller_documents`: the number of the caller's
    documents, which have to be embedded too.
    """
    from tasks.branches.generation import generate, note_failures

    embedding_s = task.resources.generators.document_s * (caller_documents + options.documents * len(indices))
    texts = [task.questions[index].text for index in indices]
    written = generate(task, texts, options, embedding_s=embedding_s)
    in_part = [result.failure for result in written if isinstance(result, PartialGeneration)]
    note_failures(task, Stage.HYPOTHESIS, in_part, "the documents that came are used")
    documents = {
        index: result.texts if isinstance(result, PartialGeneration) else result
        for index, result in zip(indices, written, strict=True)
        if not isinstance(result, StageFailure)
    }
    return documents, [result for result in written if isinstance(result, StageFailure)]


def _embedded(task: BranchTask, documents: Mapping[int, Sequence[str]]) -> dict[int, Matrix]:
    """The vectors of the documents, of as many questions as there is time for, in order.

    The first question is always embedded: otherwise one slow measurement would keep every later question from being
    embedded, and so from being measured.
    """
    from tasks.branches.generation import SEARCH_RESERVE_S

    generators = task.resources.generators
    each_s = generators.document_s
    vectors: dict[int, Matrix] = {}
    for index, texts in sorted(documents.items()):
        if vectors and task.remaining_s - SEARCH_RESERVE_S < each_s * len(texts):
            break
        started_s = task.clock()
        vectors[index] = task.embed_documents(texts)
        each_s = (task.clock() - started_s) / len(texts)
        generators.document_s = (generators.document_s + each_s) / 2 if generators.document_s else each_s
    return vectors


def _detail(sources: Sequence[str], failures: Iterable[StageFailure]) -> str:
    """`openai, feedback (rule: identifier-like)`."""
    why = dict.fromkeys(f"{failure.reason}: {failure.detail}" for failure in failures)
    return ", ".join(sources) + (f" ({'; '.join(why)})"[:300] if why else "")


def _feedback(task: BranchTask, indices: Iterable[int]) -> dict[int, Passages]:
    """The best BM25 passages of each of these questions; a question without any is not in the result."""
    import numpy as np

    count = task.resources.settings.feedback_passages
    wanted_indices = set(indices)
    texts: Texts = [
        weights if index in wanted_indices else {} for index, weights in enumerate(task.texts_of(LEXICAL))
    ]
    options = task.resources.generators.options(task.branch.name)
    name = options.feedback_store if isinstance(options, HydeOptions) else None
    store = (
        task.resources.serving(name, task.request.namespace, task.remaining_s, task.generation)
        if name
        else None
    )
    best = [ranking.hits[:count] for ranking in task.rankings_by_text(texts, count, store=store)]
    passage_ids = [hit.passage_id for hits in best for hit in hits]
    known = task.store.vectors(task.request.namespace, passage_ids, timeout_s=task.remaining_s)
    passages: dict[int, Passages] = {}
    for index, hits in enumerate(best):
        if best_known := [hit for hit in hits if hit.passage_id in known]:
            vectors = task.own_part(np.stack([known[hit.passage_id] for hit in best_known]))
            passages[index] = (vectors, [hit.score for hit in best_known])
    return passages


def _moved(
    task: BranchTask, texts: Texts, imagined: Mapping[int, Matrix], passages: Mapping[int, Passages]
) -> Matrix:
    """The vectors of these texts, moved towards the documents or passages of their questions."""
    from inference.vectors import feedback_vector, hypothesis_vector

    vectors = task.embed(texts)
    settings = task.resources.settings
    ends = list(accumulate(map(len, texts)))
    for index, (weights, end) in enumerate(zip(texts, ends, strict=True)):
        rows = range(end - len(weights), end)
        if index in imagined:
            for row in rows:
                vectors[row] = hypothesis_vector(vectors[row], imagined[index])
        elif index in passages:
            best, scores = passages[index]
            for row in rows:
                vectors[row] = feedback_vector(
                    vectors[row],
                    best,
                    scores,
                    alpha=settings.feedback_alpha,
                    count=settings.feedback_passages,
                )
    return vectors


HYDE = BranchKind(
    search_hyde,
    options=HydeOptions,
    needs=frozenset({"questions", "passages", "text", "vectors"}),
    store_search="vectors",
    options_in_plan=False,
    searches_http=False,
    can_batch=True,
)
