"""The contexts of a request with `context_tokens`: the passages of its hits, packed for a language model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from chorale_client.wire_names import Reason, Stage, StageStatus, Warned
from structlog import get_logger

from fusion.branch_results import BranchAnswers
from fusion.context import Context, pack, passages_of
from fusion.fused_hits import FusedQuestion
from models.branch_result import Degradation, StageNote
from models.documents import PassageText
from models.errors import StageFailure
from tasks.request.passage_texts import fetch_texts
from tasks.request.passages_around import MOST_PASSAGES, passages_around
from wiring.resources import Resources

log = get_logger("chorale.context")

Pages = Mapping[int, FusedQuestion]
"""Key: the question's place in the request."""


@dataclass(frozen=True, slots=True)
class Contexts:
    of: Mapping[int, Context] = field(default_factory=dict)
    """Key: the question's place in the request."""
    notes: tuple[StageNote | None, ...] = ()
    missing: tuple[Degradation | None, ...] = ()
    warnings: tuple[str, ...] = ()


def make_contexts(
    resources: Resources,
    found: BranchAnswers,
    pages: Pages,
    texts: Mapping[str, PassageText],
    limit: int,
    *,
    limit_s: float,
) -> Contexts:
    """At most `limit` tokens for each question.  `texts` are those that are known, by passage id."""
    known = {index: replace(one, texts={**one.texts, **texts}) for index, one in pages.items()}
    others = [
        (index, replace(hit, passage_id=id_))
        for index, one in pages.items()
        for hit in one.hits
        for id_ in passages_of(hit)[1:]
    ]
    ends_at_s = time.monotonic() + limit_s
    fetched = fetch_texts(resources, found, known, others, limit_s=limit_s)
    around = passages_around(resources, found, pages, fetched.texts or {}, limit, ends_at_s=ends_at_s)
    begun_s = time.monotonic()

    def count(text: str) -> int:
        if time.monotonic() >= ends_at_s:
            raise TimeoutError
        return resources.count_tokens(text)

    contexts: dict[int, Context] = {}
    why: Degradation | None = None
    try:
        for index, one in pages.items():
            contexts[index] = pack(
                one.hits,
                around.texts,
                limit=limit,
                count=count,
                first_rank=found.request.offset + 1,
                around=around.entries.get(index, ()),
            )
    except TimeoutError:
        why = Degradation(Stage.CONTEXT, Reason.BUDGET, f"{len(contexts)} of {len(pages)} questions in time")
    except StageFailure as failure:
        why = Degradation(Stage.CONTEXT, failure.reason, failure.detail[:500])
    except Exception as error:  # a tokenizer may raise anything
        log.exception("no context", request_id=found.request.request_id)
        why = Degradation(Stage.CONTEXT, Reason.ERROR, f"{type(error).__name__}: {error}"[:500])
    notes = (fetched.note, *around.notes, _note(begun_s, contexts, why))
    cut = f"{Warned.CONTEXT_AROUND}: only the first {MOST_PASSAGES:,} passages around the hits are read"
    return Contexts(contexts, notes, (fetched.why, *around.missing, why), (cut,) if around.is_cut else ())


def _note(begun_s: float, contexts: Mapping[int, Context], why: Degradation | None) -> StageNote:
    taken = sum(len(one.passage_ids) for made in contexts.values() for one in made.citations)
    wanted = taken + sum(made.left_out for made in contexts.values())
    status, ms = StageStatus.OK, (time.monotonic() - begun_s) * 1000
    if why is None:
        return StageNote(Stage.CONTEXT, status, ms, wanted, taken)
    status = StageStatus.PARTIAL if contexts else StageStatus.FAILED
    return StageNote(Stage.CONTEXT, status, ms, wanted, taken, detail=str(why.reason))
