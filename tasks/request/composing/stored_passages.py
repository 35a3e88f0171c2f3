"""Texts and vectors of passages, from whichever store has them: for answers, rerankers and diversity."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from chorale_client.wire_names import Stage

from fusion.answer import Pages
from fusion.fused_hits import FusedHit, texts_to_fetch
from models.branch_result import Degradation
from models.documents import PassageText, Vector
from models.errors import InvalidAnswer, NotConfigured, StageFailure, StoreTimeout
from models.plan import Plan
from search.deadline import Deadline
from tasks.request.composing.ending import failure_of, stage_note
from tasks.wiring.resources import Resources


def read_texts(
    resources: Resources, plan: Plan, pages: Pages, hits: Sequence[FusedHit], deadline: Deadline
) -> tuple[Pages, frozenset[str], Degradation | None]:
    """The pages with the texts of these hits, the passages that their store does not have any more, and why other texts are missing."""
    begun_s = time.monotonic()
    by_store = texts_to_fetch(plan, hits, pages.known)
    texts, failure, gone = dict[str, PassageText](), None, set[str]()
    for store, passage_ids in by_store.items():
        # A store that is away costs its own texts alone.
        try:
            read = texts_of(resources, store, plan.namespace, passage_ids, deadline)
            texts |= read
            gone |= set(passage_ids) - read.keys()
        except (StageFailure, TimeoutError) as error:
            failure = failure or failure_of(error, "no texts")
    why = None
    if failure is not None:
        why = Degradation(Stage.FETCH, failure.reason, str(failure) or "no time left for texts")
    note = stage_note(Stage.FETCH, begun_s, sum(map(len, by_store.values())), len(texts), why)
    # A document's other passages are read for the snippet only.
    gone_hits = frozenset(gone.intersection(hit.passage_id for hit in hits))
    return pages.after(note, why, known={**pages.known, **texts}), gone_hits, why


def texts_of(
    resources: Resources, store: str, namespace: str, passage_ids: Sequence[str], deadline: Deadline
) -> dict[str, PassageText]:
    """Titles and texts by passage id, from the store that found the passages.

    If that store holds no texts or is away, the next store with the same documents is asked.  Raises TimeoutError, or the
    StageFailure of a store that should have had the texts.
    """
    failures: list[StageFailure] = []
    for name in _holders(resources, store):
        if (remaining_s := deadline.remaining_s) <= 0:
            break
        try:
            return resources.store(name).texts(namespace, passage_ids, timeout_s=remaining_s)
        except TimeoutError:
            break
        except Exception as error:
            failures.append(failure_of(error, "no texts", store=name))
    if not failures:
        raise TimeoutError
    raise next((failure for failure in failures if not isinstance(failure, NotConfigured)), failures[0])


def _holders(resources: Resources, store: str) -> list[str]:
    """The store, and those with the same documents."""
    written = resources.written_stores
    return [store, *(name for name in written if name != store)] if store in written else [store]


def fetch_vectors(
    resources: Resources, plan: Plan, passage_ids: Sequence[str], deadline: Deadline
) -> tuple[dict[str, Vector], StageFailure | None]:
    """Vectors by passage id, and why some are missing that a store may have; the stores of dense branches are asked first."""
    kinds = resources.pipeline.kinds.branches
    branches = sorted(plan.branches, key=lambda branch: "vectors" not in kinds[branch.kind].needs)
    vectors: dict[str, Vector] = {}
    failure: StageFailure | None = None
    for store in dict.fromkeys(branch.store for branch in branches):
        if not (missing := [id_ for id_ in passage_ids if id_ not in vectors]):
            break
        try:
            if (remaining_s := deadline.remaining_s) <= 0:
                raise StoreTimeout("no time left to read vectors")
            read = resources.store(store).vectors(plan.namespace, missing, timeout_s=remaining_s)
            _check([*vectors.values(), *read.values()])
            vectors |= read
        except TimeoutError as error:
            failure = failure or StoreTimeout(str(error) or f"{store} did not answer in time")
        except Exception as error:
            failure = failure or failure_of(error, "no vectors", store=store)
    return vectors, failure


def _check(vectors: Sequence[Vector]) -> None:
    if vectors and len(lengths := {vector.shape for vector in vectors}) > 1:
        named = ", ".join(str(*shape) for shape in sorted(lengths))
        raise InvalidAnswer(f"vectors of different lengths: {named}")
    if not np.isfinite(vectors).all():
        raise InvalidAnswer("a vector with a value that is no number")
