"""Rewrites of the questions by a language model, for a branch that declares them (`expansion`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chorale_client.request import Variant
from chorale_client.words import Stage, StageStatus

from branches.language_model import ask, note_failures, worst
from branches.language_models import KINDS_OF
from config.generators import ExpansionOptions
from models.errors import StageFailure

if TYPE_CHECKING:
    from branches.part import Part, Texts


def expanded_texts(part: Part, kinds: frozenset[str]) -> Texts:
    """What a branch that takes `kinds` searches: questions, the caller's variants, and a model's where declared.

    A question that has variants of these kinds already is not rewritten.  With `replace` a question without
    rewrites is left out; raises the model's failure where that is every one.
    """
    options = part.resources.generators.options(part.branch.name)
    texts = part.texts_of(kinds)
    if not isinstance(options, ExpansionOptions) or not options.asks_a_model:
        return texts
    started = part.clock()
    open_ = [
        index
        for index, question in enumerate(part.questions)
        if not any(variant.kind in kinds for variant in question.variants)
    ]
    if not open_:
        return texts
    more: list[tuple[Variant, ...]] = [()] * len(part.questions)
    failures: dict[int, StageFailure] = {}
    written = ask(part, [part.questions[index].text for index in open_], options)
    for index, one in zip(open_, written, strict=True):
        if isinstance(one, StageFailure):
            failures[index] = one
        else:
            assert isinstance(one, tuple)  # an expander has no parts
            named = zip(KINDS_OF[part.branch.kind], one, strict=True)
            more[index] = tuple(
                Variant.model_validate({"kind": kind, "text": text, "replace": options.replace})
                for kind, text in named
                if text
            )
    failed = worst(failures.values()) if options.replace and len(failures) == len(part.questions) else None
    why = "; ".join(dict.fromkeys(f"{one.reason}: {one.detail}" for one in failures.values()))
    part.timed(
        Stage.EXPAND,
        started,
        f"openai ({why})"[:300] if why else "openai",
        _status(len(failures), len(part.questions), replace=options.replace, has_failed=failed is not None),
    )
    if failed is not None:
        raise failed
    note_failures(
        part, Stage.EXPAND, failures.values(), "left out" if options.replace else "without rewrites"
    )
    texts = part.texts_of(kinds, more)
    if not options.replace:
        return texts
    return [{} if index in failures else one for index, one in enumerate(texts)]


def _status(failures: int, questions: int, *, replace: bool, has_failed: bool) -> StageStatus:
    """`failed` and `skipped` say that nothing is searched."""
    if not failures:
        return StageStatus.OK
    if failures < questions or not replace:
        return StageStatus.PARTIAL
    return StageStatus.FAILED if has_failed else StageStatus.SKIPPED
