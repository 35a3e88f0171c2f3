"""Texts and vectors of passages, from whichever store has them: for answers, rerankers and diversity."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from chorale_client.request import Request
from chorale_client.wire_names import Stage, StageStatus
from structlog import get_logger

from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedHit, FusedQuestion, texts_to_fetch
from models.branch_result import Degradation, StageNote
from models.documents import PassageText, Vector
from models.errors import InvalidAnswer, NotConfigured, OutOfTime, StageFailure, StoreTimeout
from models.plan import Plan
from wiring.resources import Resources

log = get_logger("chorale.texts")

Pages = Mapping[int, FusedQuestion]
"""Key: the question's place in the request."""


@dataclass(frozen=True, slots=True)
class FetchedTexts:
    texts: dict[str, PassageText] | None = None
    """Texts by passage id; None if no text is needed, or if none could be fetched."""
    note: StageNote | None = None
    why: Degradation | None = None
    """Why texts are missing."""
    gone: frozenset[str] = frozenset()
    """Passages of hits that their store does not have any more."""


def failure_of(error: Exception, event: str, **context: Any) -> StageFailure:
    """An error of a store or model as an answer names it.  One of another package may raise anything, which is logged as `event`."""
    if isinstance(error, StageFailure):
        return error
    if isinstance(error, TimeoutError):
        return OutOfTime(str(error))
    log.exception(event, **context)
    return StageFailure(f"{type(error).__name__}: {error}")


def _needs_texts(request: Request) -> bool:
    return request.context_tokens is not None or not set(request.include) <= {"ids", "explanation"}


def fetch_texts(
    resources: Resources,
    answers: BranchAnswers,
    fused: Pages,
    candidates: Sequence[tuple[int, FusedHit]],
    *,
    limit_s: float,
) -> FetchedTexts:
    """Titles and texts of the hits that may be shown, and of the `candidates` of a reranker."""
    request, plan = answers.request, answers.plan
    if not _needs_texts(request) and not candidates:
        return FetchedTexts()
    depth = request.offset + request.top_k if plan.rerank is not None else None
    hits = [hit for page in fused.values() for hit in page.hits[:depth]] if _needs_texts(request) else []
    hits += (hit for _, hit in candidates)
    texts = {id_: text for page in fused.values() for id_, text in page.texts.items()}
    by_store = texts_to_fetch(plan, hits, texts)
    started_s = time.monotonic()
    count, known = sum(map(len, by_store.values())), len(texts)
    failure: StageFailure | None = None
    gone: set[str] = set()
    for store, passage_ids in by_store.items():
        # A store that is away costs its own texts alone.
        try:
            read = texts_of(resources, store, plan.namespace, passage_ids, ends_at_s=started_s + limit_s)
            texts |= read
            gone |= set(passage_ids) - read.keys()
        except (StageFailure, TimeoutError) as error:
            failure = failure or failure_of(error, "no texts")
    # A document's other passages are read for the snippet only.
    lost = frozenset(gone.intersection(hit.passage_id for hit in hits))
    ms, fetched = (time.monotonic() - started_s) * 1000, len(texts) - known
    if failure is None:
        return FetchedTexts(texts, StageNote(Stage.FETCH, StageStatus.OK, ms, count, fetched), gone=lost)
    note = StageNote(Stage.FETCH, StageStatus.FAILED, ms, count, fetched, detail=str(failure.reason))
    why = Degradation(Stage.FETCH, failure.reason, str(failure) or "no time left for texts")
    return FetchedTexts(texts or None, note, why, lost)


def texts_of(
    resources: Resources, store: str, namespace: str, passage_ids: Sequence[str], *, ends_at_s: float
) -> dict[str, PassageText]:
    """Titles and texts by passage id, from the store that found the passages.

    If that store holds no texts or is away, the next store with the same documents is asked.  `ends_at_s` is by the
    monotonic clock.  Raises TimeoutError, or the StageFailure of a store that should have had the texts.
    """
    failures: list[StageFailure] = []
    for name in _holders(resources, store):
        if (rest_s := ends_at_s - time.monotonic()) <= 0:
            break
        try:
            return resources.store(name).texts(namespace, passage_ids, timeout_s=rest_s)
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
            read = resources.store(store).vectors(plan.namespace, missing, timeout_s=left_s)
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
