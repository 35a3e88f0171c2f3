"""A language model writes texts for a branch: the texts for each question, or the reason why there are none.

The model is not asked if a rule says so, if too little time is left, or if its breaker is open.  Cached texts cost
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chorale_client.tenants import tenant_of
from chorale_client.wire_names import Reason, Stage, consequence
from structlog import get_logger

from inference.endpoints.language_models import skip_rule
from ledger.breaker_outcomes import Verdict, counts_of
from ledger.caches import CachedTexts
from models.branch_result import Degradation
from models.declarations.extensions import GenerationResult, PartialGeneration
from models.errors import Declined, StageFailure
from tasks.branches.branch_task import BranchTask
from tasks.branches.generators import Endpoint, generator_name
from tasks.branches.model_breakers import NotCalled

log = get_logger("chorale.hypothesis")

SEARCH_RESERVE_S = 0.3
"""Seconds kept for what follows: feedback if nothing was written, and the search itself."""


def generate(
    task: BranchTask, texts: Sequence[str], options: Endpoint, *, embedding_s: float = 0.0
) -> list[GenerationResult]:
    """One result for each text; raises nothing.  `embedding_s` seconds are kept to embed what the model writes, but never
    more than half of the time."""
    written: dict[str, GenerationResult] = {}
    for text in texts:
        rule = skip_rule(text, skip_identifiers=options.skip_identifiers, max_words=options.max_words)
        if rule is not None:
            written[text] = NotCalled(Reason.RULE, rule)
    if missing := [text for text in dict.fromkeys(texts) if text not in written]:
        try:
            if options.url is not None and task.is_local_only:
                why = "the namespace is local_only, and the language model is behind an address"
                raise NotCalled(Reason.NOT_CONFIGURED, why)
            generator = task.resources.generators.of(task.branch.name)
            task.generation = None  # an answer may take seconds, and the corpus may change in that time
            if task.request.cache == "use":
                written |= generator.known(missing, tenant_of(task.request.request_id))
            if uncached := [text for text in missing if text not in written]:
                written |= zip(uncached, _write(task, generator, uncached, options, embedding_s), strict=True)
        except StageFailure as failure:
            written |= {text: failure for text in missing if text not in written}
    return [written[text] for text in texts]


def note_failures(task: BranchTask, stage: Stage, failures: Iterable[StageFailure], instead: str) -> None:
    """Note each degrading reason once, and what is used `instead`."""
    for failure in {failure.reason: failure for failure in failures}.values():
        if consequence(failure.reason).degrades:
            detail = f"{task.branch.name}: {failure.detail}; {instead}"[:500]
            task.degraded.append(Degradation(stage, str(failure.reason), detail))


def worst(failures: Iterable[StageFailure]) -> StageFailure | None:
    """The first failure that degrades; None if all were by rule."""
    return next((failure for failure in failures if consequence(failure.reason).degrades), None)


def _write(
    task: BranchTask, generator: CachedTexts, texts: Sequence[str], options: Endpoint, embedding_s: float
) -> list[GenerationResult]:
    remaining_s = task.remaining_s - SEARCH_RESERVE_S
    allowed_s = min(options.limit_s, max(remaining_s - embedding_s, remaining_s / 2))
    if allowed_s < options.least_s:
        detail = f"{max(0.0, allowed_s):.2f} s for the language model, which wants {options.least_s:g} s"
        return [NotCalled(Reason.BUDGET, detail) for _ in texts]
    if (breaker := task.breaker(generator_name(task.branch.name)).claim(allowed_s)) is not None:
        return [NotCalled(Reason.BREAKER_OPEN, str(breaker)) for _ in texts]
    written = generator.write(
        texts,
        timeout_s=allowed_s,
        keep=task.request.cache != "bypass",
        owner=tenant_of(task.request.request_id),
    )
    _count(task, written)
    return written


def _count(task: BranchTask, written: Sequence[GenerationResult]) -> None:
    verdict: Verdict = "answered"
    reason = ""
    failures = [result for result in written if isinstance(result, StageFailure)]
    if len(failures) == len(written):
        # A model declines because of the question, so that does not count as a failure of the model.
        counted = [
            failure
            for failure in failures
            if counts_of(failure.reason).branch and not isinstance(failure, Declined)
        ]
        if task.branch.is_costly:
            counted = []
        verdict, reason = "failed" if counted else "says_nothing", str((counted or failures)[0].reason)
    for failure in (
        *failures,
        *(result.failure for result in written if isinstance(result, PartialGeneration)),
    ):
        if failure.reason == Reason.UNAUTHORISED:
            log.error("language model refuses our key", branch=task.branch.name, error=failure.detail)
            break
    task.breaker(generator_name(task.branch.name)).count(verdict, reason)
