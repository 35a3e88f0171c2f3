"""The texts of passages that an answer shows or a reranker reads, from whichever store has them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chorale_client.request import Request
from chorale_client.wire_names import Reason, Stage, StageStatus
from structlog import get_logger

from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedHit, FusedQuestion, texts_to_fetch
from models.branch_result import Degradation, StageNote
from models.documents import PassageText
from models.errors import NotConfigured, StageFailure
from wiring.resources import Resources

log = get_logger("chorale.texts")


@dataclass(frozen=True, slots=True)
class Fetched:
    texts: dict[str, PassageText] | None = None
    """Texts by passage id; None if no text is needed, or if none could be fetched."""
    note: StageNote | None = None
    why: Degradation | None = None
    """Why texts are missing."""
    gone: frozenset[str] = frozenset()
    """Passages of hits that their store does not have any more."""


def _needs_texts(request: Request) -> bool:
    return request.context_tokens is not None or not set(request.include) <= {"ids", "explanation"}


def fetch_texts(
    resources: Resources,
    found: BranchAnswers,
    fused: Mapping[int, FusedQuestion],
    wanted: Sequence[tuple[int, FusedHit]],
    *,
    limit_s: float,
) -> Fetched:
    """Titles and texts of the hits that may be shown, and of the candidates `wanted` by a reranker."""
    request, plan = found.request, found.plan
    if not _needs_texts(request) and not wanted:
        return Fetched()
    shown = request.offset + request.top_k if plan.rerank is not None else None
    hits = [hit for one in fused.values() for hit in one.hits[:shown]] if _needs_texts(request) else []
    texts = {name: text for one in fused.values() for name, text in one.texts.items()}
    by_store = texts_to_fetch(plan, (*hits, *(hit for _, hit in wanted)), texts)
    started_s = time.monotonic()
    count, brought = sum(map(len, by_store.values())), len(texts)
    failure: StageFailure | TimeoutError | None = None
    gone: set[str] = set()
    for store, passage_ids in by_store.items():
        # A store that is away costs its own texts alone.
        try:
            read = texts_of(resources, store, plan.namespace, passage_ids, ends_at_s=started_s + limit_s)
            texts |= read
            gone |= set(passage_ids) - read.keys()
        except (StageFailure, TimeoutError) as error:
            failure = failure or error
    # A document's other passages are read for the snippet only.
    lost = frozenset(gone.intersection(hit.passage_id for hit in (*hits, *(hit for _, hit in wanted))))
    ms, fetched = (time.monotonic() - started_s) * 1000, len(texts) - brought
    if failure is None:
        return Fetched(texts, StageNote(Stage.FETCH, StageStatus.OK, ms, count, fetched), gone=lost)
    reason = failure.reason if isinstance(failure, StageFailure) else Reason.BUDGET
    note = StageNote(Stage.FETCH, StageStatus.FAILED, ms, count, fetched, detail=str(reason))
    why = Degradation(Stage.FETCH, reason, str(failure) or "no time left for texts")
    return Fetched(texts or None, note, why, lost)


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
        except StageFailure as error:
            failures.append(error)
        except Exception as error:  # a store from outside may raise anything
            log.exception("no texts", store=name)
            failures.append(StageFailure(f"{type(error).__name__}: {error}"))
    if not failures:
        raise TimeoutError
    raise next((one for one in failures if not isinstance(one, NotConfigured)), failures[0])


def _holders(resources: Resources, store: str) -> list[str]:
    """The store, and those with the same documents."""
    written = resources.written_stores
    return [store, *(name for name in written if name != store)] if store in written else [store]
