"""Lets the weights of a configuration follow the grades of a namespace: a duty of the sweeper process.

Weights are rules of the namespace, so each change is a version with its author and its reason, and a command takes it back.  One
process adapts at a time.  Searches are not repeated: the lists that past requests have recorded are fused again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import cast

from chorale_client.keys import ADAPTED, ADAPTER
from pydantic_core import to_json
from redis.exceptions import RedisError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from structlog import get_logger

from config.declarations import Adaptation, Configuration, proposed_name
from evaluation.recorded.live_comparison import compare_live
from evaluation.tuning.recorded_lists import ChosenWeights, choose_weights
from models.duty import Duty, holds
from models.errors import ServiceError
from models.rules import Rules
from records.audit.queries import Which, last
from records.judgements import store as judged
from records.judgements.impressions import impressions
from records.judgements.pooling import pooled
from records.rules.adaptation_checks import AdaptationCheck, read_adaptation_checks
from records.rules.editing import with_accepted_proposal, with_weights
from records.rules.store import RuleStore, copy_rules
from tasks.request.planning.ruled_weights import with_ruled_weights
from tasks.wiring.resources import Resources

log = get_logger("chorale.adapting")

TICK_EVERY_S = 1.0
CHOOSING_S = 60.0
"""The longest time for choosing the weights of one configuration in one namespace."""
ACTING_S = CHOOSING_S + 60
"""After this time, another process takes the place of one that died."""
NEWEST = 500
"""Requests with grades whose lists are fused again."""


class Adapting(Duty):
    failing = "weights do not adapt"
    expected = (*Duty.expected, RedisError, SQLAlchemyError)

    def __init__(self, resources: Resources, trail: Engine, prepare: Callable[[], None]) -> None:
        """`trail` has the grades, the recorded lists and the rules.  Calls `prepare` before each tick."""
        self._pipeline = resources.pipeline
        self._redis = resources.redis
        self._trail = trail
        self._rules = RuleStore(trail)
        self._prepare = prepare
        self._lease = self._redis.lock(ADAPTER, timeout=ACTING_S, thread_local=False)
        self._declared = [each for each in self._pipeline.configurations.values() if each.adapt]

    def tick(self) -> float:
        self._prepare()
        if holds(self._lease):
            known = {
                (check.configuration, check.namespace): check for check in read_adaptation_checks(self._redis)
            }
            for namespace, grades in judged.graded(self._trail).items():
                for configuration in self._declared:
                    before = known.get((configuration.name, namespace))
                    self._check(configuration, namespace, grades, before)
        return TICK_EVERY_S

    def _check(
        self, configuration: Configuration, namespace: str, grades: int, before: AdaptationCheck | None
    ) -> None:
        adapt = cast("Adaptation", configuration.adapt)
        seconds, microseconds = self._redis.time()
        at_ms = seconds * 1_000 + microseconds // 1_000
        if before is not None and at_ms - before.at_ms < adapt.every_h * 3_600_000:
            return
        counted = min(before.counted, grades) if before else 0
        self._lease.reacquire()
        outcome = self._decided(configuration, namespace)
        if outcome is None and (new := grades - counted) < adapt.min_new_grades:
            outcome = f"{new} new grades, and at least {adapt.min_new_grades} are needed"
        elif outcome is None:
            outcome, counted = self._adapted(configuration, namespace), grades
        check = AdaptationCheck(configuration.name, namespace, at_ms, counted, outcome)
        self._redis.hset(ADAPTED, f"{configuration.name} {namespace}", to_json(asdict(check)))
        if before is None or outcome != before.outcome:
            log.info("weights", configuration=configuration.name, namespace=namespace, outcome=outcome)

    def _awaits_people(self, configuration: Configuration) -> bool:
        """Whether proposed weights are taken only once people prefer them on shared pages."""
        pair, name = self._pipeline.interleaving, configuration.name
        is_shared = pair is not None and (pair.a, pair.b) == (name, proposed_name(name))
        return is_shared and cast("Adaptation", configuration.adapt).mode == "take"

    def _decided(self, configuration: Configuration, namespace: str) -> str | None:
        """What people have decided of a proposal, or that they have not yet; None if there is none to decide."""
        a, b = configuration.name, proposed_name(configuration.name)
        if not self._awaits_people(configuration) or not self._rules.current(namespace).rules.weights_of(b):
            return None
        live = compare_live(a, b, impressions(self._trail, a, b, Which(namespace=namespace)))
        if live.better == "B":
            self._change(
                namespace, partial(with_accepted_proposal, configuration=a, proposed=b), live.verdict
            )
            return f"taken: {live.verdict}"
        if live.better == "A":
            self._change(namespace, partial(with_weights, configuration=b, weights=None), live.verdict)
            return f"the proposal is withdrawn: {live.verdict}"
        return f"proposed as {b}: {live.verdict}"

    def _adapted(self, configuration: Configuration, namespace: str) -> str:
        adapt = cast("Adaptation", configuration.adapt)
        try:
            chosen = self._chosen(configuration, namespace, adapt)
        except ServiceError as error:
            return str(error)
        gain, weights = (
            chosen.gain,
            ", ".join(f"{name} {weight:g}" for name, weight in chosen.weights.items()),
        )
        measured = f"nDCG@10 {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
        why = f"{weights}: {measured} on {gain.questions} held-out questions"
        if not gain.is_better:
            return f"the present weights stay: not distinguishable from {why}"
        is_applied = adapt.mode == "take" and not self._awaits_people(configuration)
        target = configuration.name if is_applied else proposed_name(configuration.name)
        self._change(namespace, partial(with_weights, configuration=target, weights=chosen.weights), why)
        return f"{'taken' if is_applied else f'proposed as {target}'}: {why}"

    def _chosen(self, configuration: Configuration, namespace: str, adapt: Adaptation) -> ChosenWeights:
        rules = self._rules.current(namespace).rules
        present, _, _ = with_ruled_weights(
            configuration, self._pipeline, rules.weights_of(configuration.name)
        )
        configurations = {**self._pipeline.configurations, present.name: present}
        among = Which(namespace=namespace, among=judged.GRADED_REQUESTS, by_callers=True)
        rows = last(self._trail, NEWEST, among, with_branches=True)
        hashes = {question.text_hash for row in rows for question in row.questions}
        feedback = judged.on_questions(self._trail, [namespace], hashes)
        return choose_weights(
            rows,
            replace(self._pipeline, configurations=configurations),
            {(each.namespace, each.text_hash): each for each in pooled(feedback)},
            name=present.name,
            bounds=adapt.bounds,
            limit_s=CHOOSING_S,
        )

    def _change(self, namespace: str, change: Callable[[Rules], Rules], why: str) -> None:
        self._rules.change(namespace, change, by=f"adapt: {why}")
        copy_rules(self._redis, self._rules, namespace)
