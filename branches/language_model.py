"""Ask a language model for a branch: what it wrote for each question, or why it wrote nothing.

The model is not asked if a rule says so, if too little time is left, or if its breaker is open.  Cached texts cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chorale_client.tenants import tenant_of
from chorale_client.words import Reason, Stage, consequence
from redis.exceptions import RedisError
from structlog import get_logger

from branches.chat_endpoint import Endpoint
from branches.language_models import generator_name
from branches.part import Part
from cache.hypotheses import CachedTexts
from inference.language_models.skip_rules import skip_rule
from ledger.outcomes import Outcome, counts_of
from models.envelope import Degradation
from models.errors import Declined, StageFailure
from models.written_texts import SomeTexts, Written

log = get_logger("chorale.hypothesis")

AFTER_S = 0.3
"""Seconds kept for what follows: feedback if nothing was written, and the search itself."""


class NotAsked(StageFailure):
    """The model was not asked."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def ask(part: Part, texts: Sequence[str], options: Endpoint, *, embedding_s: float = 0.0) -> list[Written]:
    """One result for each text; raises nothing.  `embedding_s` seconds are kept to embed what the model writes, but never
    more than half of the time."""
    written: dict[str, Written] = {}
    for text in texts:
        rule = skip_rule(text, skip_identifiers=options.skip_identifiers, max_words=options.max_words)
        if rule is not None:
            written[text] = NotAsked(Reason.RULE, rule)
    if wanted := [text for text in dict.fromkeys(texts) if text not in written]:
        try:
            generator = part.resources.generators.of(part.branch.name)
            part.generation = None  # an answer may take seconds, and the corpus may change in that time
            if part.request.cache == "use":
                written |= generator.known(wanted, tenant_of(part.request.request_id))
            if missing := [text for text in wanted if text not in written]:
                written |= zip(missing, _write(part, generator, missing, options, embedding_s), strict=True)
        except StageFailure as failure:
            written |= {text: failure for text in wanted if text not in written}
    return [written[text] for text in texts]


def note_failures(part: Part, stage: Stage, failures: Iterable[StageFailure], instead: str) -> None:
    """Note each degrading reason once, and what is used `instead`."""
    for one in {failure.reason: failure for failure in failures}.values():
        if consequence(one.reason).degrades:
            detail = f"{part.branch.name}: {one.detail}; {instead}"[:500]
            part.degraded.append(Degradation(stage, str(one.reason), detail))


def worst(failures: Iterable[StageFailure]) -> StageFailure | None:
    """The first failure that degrades; None if all were by rule."""
    return next((one for one in failures if consequence(one.reason).degrades), None)


def _write(
    part: Part, generator: CachedTexts, texts: Sequence[str], options: Endpoint, embedding_s: float
) -> list[Written]:
    left_s = part.left_s - AFTER_S
    allowed_s = min(options.limit_s, max(left_s - embedding_s, left_s / 2))
    if allowed_s < options.least_s:
        detail = f"{max(0.0, allowed_s):.2f} s for the language model, which wants {options.least_s:g} s"
        return [NotAsked(Reason.BUDGET, detail) for _ in texts]
    if (said := _open_breaker(part, allowed_s)) is not None:
        return [NotAsked(Reason.BREAKER_OPEN, said) for _ in texts]
    written = generator.write(
        texts,
        timeout_s=allowed_s,
        keep=part.request.cache != "bypass",
        owner=tenant_of(part.request.request_id),
    )
    _count(part, written)
    return written


def _open_breaker(part: Part, allowed_s: float) -> str | None:
    name, breakers = generator_name(part.branch.name), part.resources.breakers
    try:
        look = breakers.look([name])
        found = look.breakers.get(name)
        if found is None or breakers.claim(part.request.request_id, [name], timeout_s=allowed_s):
            return None
    except RedisError as error:
        log.warning("breaker not read", breaker=name, error=str(error)[:200])
        return None
    return str(found)


def _count(part: Part, written: Sequence[Written]) -> None:
    name = generator_name(part.branch.name)
    failures = [one for one in written if isinstance(one, StageFailure)]
    if len(failures) < len(written):
        outcome = Outcome(name, "answered")
    else:
        # A model declines because of the question, so that does not count as a failure of the model.
        counted = [one for one in failures if counts_of(one.reason).branch and not isinstance(one, Declined)]
        if part.branch.is_costly:
            counted = []
        told = (counted or failures)[0]
        outcome = Outcome(name, "failed" if counted else "says_nothing", str(told.reason))
    for one in (*failures, *(one.failure for one in written if isinstance(one, SomeTexts))):
        if one.reason == Reason.UNAUTHORISED:
            log.error("language model refuses our key", branch=part.branch.name, error=one.detail)
            break
    try:
        turned = part.resources.breakers.count(part.request.request_id, [outcome])
    except RedisError as error:
        log.warning("outcome not counted", breaker=name, error=str(error)[:200])
        return
    for turn in turned:
        log.warning("breaker opened" if turn.is_open else "breaker closed", breaker=turn.name)
