"""A language model rewrites the questions, for branches that declare it (`expansion`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from chorale_client.request import Variant
from chorale_client.wire_names import Stage, StageStatus

from branches.branch_task import BranchTask, Texts
from branches.generators import AddTokens, Endpoint, Writer
from fusion.rankings import DENSE
from inference.language_models import EXPANSION_PROMPT
from models.errors import StageFailure


class ExpansionOptions(Endpoint):
    """Whether a language model rewrites the question for this branch."""

    expansion: Literal["none", "openai"] = "none"
    replace: bool = False
    """Search with the rewrites alone.  A question without rewrites is then left out, because the branch would repeat
    a branch that searches the question itself."""

    @property
    def asks_a_model(self) -> bool:
        return self.expansion == "openai"

    def prompt_text(self, language: str) -> str:
        return EXPANSION_PROMPT

    def open_writer(self, language: str, variants: frozenset[str], add_tokens: AddTokens) -> Writer:
        chat = self.open_chat(add_tokens)
        from inference.language_models import OpenAiExpander

        expander = OpenAiExpander(chat, kinds=tuple(sorted(variants)))
        return Writer(expander.expand, lambda texts: len(texts) == len(variants))


def expanded_texts(task: BranchTask, kinds: frozenset[str]) -> Texts:
    """The questions, and their variants of these kinds: the caller's, or those that the declared model writes.

    A question with variants of these kinds is not rewritten.  With `replace` a question without rewrites is left out; if
    that is every question, the model's failure is raised.
    """
    options = task.resources.generators.options(task.branch.name)
    if isinstance(options, ExpansionOptions) and options.asks_a_model:
        open_ = [
            index
            for index, question in enumerate(task.questions)
            if not any(variant.kind in kinds for variant in question.variants)
        ]
        if open_:
            return _with_rewrites(task, kinds, options, open_)
    return task.texts_of(kinds)


def _with_rewrites(
    task: BranchTask, kinds: frozenset[str], options: ExpansionOptions, open_: Sequence[int]
) -> Texts:
    """`open_`: the indices of the questions to rewrite."""
    from branches.generation import generate, note_failures, worst

    if kinds == DENSE:
        task.check_encoder()
    started = task.clock()
    more: list[tuple[Variant, ...]] = [()] * len(task.questions)
    failures: dict[int, StageFailure] = {}
    written = generate(task, [task.questions[index].text for index in open_], options)
    for index, result in zip(open_, written, strict=True):
        if isinstance(result, StageFailure):
            failures[index] = result
        else:
            assert isinstance(result, tuple)  # an expander has no parts
            named = zip(sorted(kinds), result, strict=True)
            more[index] = tuple(
                Variant.model_validate({"kind": kind, "text": text, "replace": options.replace})
                for kind, text in named
                if text
            )
    failed = worst(failures.values()) if options.replace and len(failures) == len(task.questions) else None
    why = "; ".join(dict.fromkeys(f"{failure.reason}: {failure.detail}" for failure in failures.values()))
    task.timed(
        Stage.EXPAND,
        started,
        f"openai ({why})"[:300] if why else "openai",
        _status(len(failures), len(task.questions), replace=options.replace, has_failed=failed is not None),
    )
    if failed is not None:
        raise failed
    note_failures(
        task, Stage.EXPAND, failures.values(), "left out" if options.replace else "without rewrites"
    )
    texts = task.texts_of(kinds, more)
    if not options.replace:
        return texts
    return [{} if index in failures else weights for index, weights in enumerate(texts)]


def _status(failures: int, questions: int, *, replace: bool, has_failed: bool) -> StageStatus:
    """`failed` and `skipped` mean that the branch searches nothing."""
    if not failures:
        return StageStatus.OK
    if failures < questions or not replace:
        return StageStatus.PARTIAL
    return StageStatus.FAILED if has_failed else StageStatus.SKIPPED
