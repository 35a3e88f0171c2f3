"""The vectors of passages, from whichever store of the plan has them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from structlog import get_logger

from models.documents import Vector
from models.errors import InvalidAnswer, StageFailure, StoreTimeout
from models.plan import Plan
from wiring.resources import Resources

log = get_logger("chorale.vectors")


def fetch_vectors(
    resources: Resources, plan: Plan, passage_ids: Sequence[str], *, ends_at_s: float
) -> tuple[dict[str, Vector], StageFailure | None]:
    """Vectors by passage id, and why some are missing that a store may have; the stores of dense branches are asked first.

    `ends_at_s` is by the monotonic clock.
    """
    kinds = resources.pipeline.kinds.branches
    branches = sorted(plan.branches, key=lambda branch: "vectors" not in kinds[branch.kind].needs)
    vectors: dict[str, Vector] = {}
    failure: StageFailure | None = None
    for store in dict.fromkeys(branch.store for branch in branches):
        if not (missing := [id_ for id_ in passage_ids if id_ not in vectors]):
            break
        if (left_s := ends_at_s - time.monotonic()) <= 0:
            failure = failure or StoreTimeout("no time left to read vectors")
            break
        try:
            found = resources.store(store).vectors(plan.namespace, missing, timeout_s=left_s)
            _check([*vectors.values(), *found.values()])
            vectors |= found
        except (StageFailure, TimeoutError) as error:
            timeout = StoreTimeout(str(error) or f"{store} did not answer in time")
            failure = failure or (error if isinstance(error, StageFailure) else timeout)
        except Exception as error:  # a store from outside may raise anything
            log.exception("no vectors", store=store)
            failure = failure or StageFailure(f"{type(error).__name__}: {error}")
    return vectors, failure


def _check(vectors: Sequence[Vector]) -> None:
    if vectors and len(lengths := {vector.shape for vector in vectors}) > 1:
        raise InvalidAnswer(
            f"vectors of different lengths: {', '.join(str(*one) for one in sorted(lengths))}"
        )
    if not np.isfinite(vectors).all():
        raise InvalidAnswer("a vector with a value that is no number")
