"""The weights that the rules of a namespace give to a configuration.  Pure."""

from __future__ import annotations

from chorale_client.wire_names import Warned

from config.declarations import Configuration, Pipeline
from models.rules import Weights


def with_ruled_weights(
    configuration: Configuration, pipeline: Pipeline, named_rule: tuple[str, Weights] | None
) -> tuple[Configuration, str | None, tuple[str, ...]]:
    """The configuration with the weights of the namespace, the name of their rule, and warnings.

    A rule that the pipeline file does not allow is left out with a warning: the file may have changed after it was written.
    """
    if named_rule is None:
        return configuration, None, ()
    name, rule = named_rule
    weights = {**(configuration.weights or {}), **rule.branches}
    ruled = configuration.model_copy(update={"weights": weights})
    names = [branch.name for branch in pipeline.branches_of(configuration)]
    wrong = [f"no branch {branch[:80]!r}" for branch in rule.branches if branch not in names]
    if not any(branch.weight for branch in pipeline.branches_of(ruled)):
        wrong.append("every weight is 0")
    elif adaptation := pipeline.adaptation_of(configuration.name):
        wrong += adaptation.outside(pipeline.shares_of(ruled))
    if not wrong:
        return ruled, name, ()
    return configuration, None, (f"{Warned.RULES}: {name}: {'; '.join(wrong)}; the declared weights hold",)
