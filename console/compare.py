"""What another configuration would have answered to recorded questions.  No search runs: their recorded lists are fused again."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from chorale_client.errors import InvalidRequest, safe_repr

from api.audit import visible_rows, visible_to
from api.limits import count_cost
from config.declarations import Configuration, LivePair, Pipeline
from console.pages import Page, Visit
from console.questions_file import MOST_BYTES, MOST_QUESTIONS, ask_file
from console.recorded import WEIGHT, changes_of, number_of
from models.errors import ServiceError
from models.tables.audit import RequestRow
from records.audit.shadow_pairs import shadow_pairs
from records.judgements import store
from records.judgements.impressions import impressions
from records.judgements.pooling import JudgedQuestion, pooled
from records.keys.grant import Grant

if TYPE_CHECKING:
    from evaluation.judged.judged_comparison import JudgedComparison
    from evaluation.judged.metrics import Gain
    from evaluation.recorded.fusion_changes import FusionChanges
    from evaluation.recorded.replayed_comparison import ReplayedComparison

_MOST = 500
"""Requests."""
_MOST_WITH_SHADOWS = 10_000
"""Requests among which those with a shadow are looked for."""
REQUESTS_OF_A_CALL = 20
"""A comparison of more requests counts for more calls of the key: 20 take about 0.15 s of one core, and three times as much where
all are judged."""
TUNING_CALLS = 60
"""A tuning counts for so many calls of the key."""
TUNING_S = 20.0
_SOURCES = {"recent": "the last requests", "judged": "judged questions"}
_PARAMETERS = ("a", "b", "namespace", "n", "questions", "k", "correlation_id")
"""Those of the address, beside the weights of B."""
_tuning = threading.Lock()
"""A process tunes for one visit at a time."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What the address asks for."""

    a: str | None
    """None: each request as it was recorded."""
    b: str
    candidate: Configuration | None
    """B with the weights and the k of the address; None if it has none."""
    rows: Sequence[RequestRow]
    judged: Mapping[tuple[str, str], JudgedQuestion]
    replayed: ReplayedComparison

    @property
    def names(self) -> tuple[str, str]:
        return self.a or "as recorded", f"{self.b}, changed" if self.candidate else self.b


async def show(visit: Visit) -> dict[str, Any]:
    await count_comparison(visit)
    return await to_thread.run_sync(_page_data, visit)


async def count_comparison(visit: Visit) -> None:
    calls = _requests(visit) // REQUESTS_OF_A_CALL + TUNING_CALLS * ("tune" in visit.parameters)
    await count_cost(visit.request, visit.session.grant, visit.services.redis, calls)


def compared_by(visit: Visit) -> Compared:
    """Raises InvalidRequest for a wrong parameter."""
    # The planner loads the kinds of stores, as `Visit.pipeline` does.
    from evaluation.recorded.replayed_comparison import compare_replayed

    pipeline, parameters = visit.pipeline, visit.parameters
    names = list(pipeline.configurations)
    others = [name for name in names if name != pipeline.default_configuration]
    a = _chosen(parameters, "a", names)
    b = _chosen(parameters, "b", names) or (others or names)[0]
    only_judged = _chosen(parameters, "questions", list(_SOURCES)) == "judged"
    candidate = _candidate(pipeline, b, changes_of(parameters))
    if candidate is not None:
        configurations = {**pipeline.configurations, candidate.name: candidate}
        pipeline = replace(pipeline, configurations=configurations)
    among = store.GRADED_REQUESTS if only_judged else None
    which = {**_chosen_requests(visit), "among": among}
    rows = visible_rows(visit.session.grant, visit.services, _requests(visit), by_callers=True, **which)
    judged = _judged(
        visit,
        {row.namespace for row in rows},
        {question.text_hash for row in rows for question in row.questions},
    )
    changed_b = candidate.name if candidate else b
    replayed = compare_replayed(rows, pipeline, a, changed_b, judged, only_judged=only_judged)
    return Compared(a, b, candidate, rows, judged, replayed)


def _candidate(pipeline: Pipeline, base: str, changes: FusionChanges) -> Configuration | None:
    """The changed configuration; None without changes.  Raises InvalidRequest."""
    if not changes.weights and changes.k is None:
        return None
    try:
        name = "candidate" + "-2" * ("candidate" in pipeline.configurations)
        return changes.configuration(pipeline, base, name)
    except ServiceError as error:
        raise InvalidRequest(str(error)) from None


def tenant_of_feedback(grant: Grant) -> str | None:
    """The tenant whose feedback the key may see; None: every tenant's."""
    return None if grant.is_operators else grant.tenant


def address_of(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters that choose a comparison."""
    return {
        name: value for name, value in parameters.items() if name in _PARAMETERS or name.startswith(WEIGHT)
    }


def summary(judged: JudgedComparison) -> dict[str, Any]:
    """The comparison as JSON, with the number of its open questions."""
    return {
        **asdict(judged),
        "better": judged.better,
        "certain": judged.certain,
        "open": len(judged.open),
    }


def _requests(visit: Visit) -> int:
    return round(number_of({"n": "100", **visit.parameters}, "n", 1, _MOST))


def _chosen_requests(visit: Visit) -> dict[str, str | None]:
    return {name: visit.parameters.get(name) for name in ("namespace", "correlation_id")}


def _judged(
    visit: Visit, namespaces: Collection[str], hashes: Collection[str]
) -> dict[tuple[str, str], JudgedQuestion]:
    tenant = tenant_of_feedback(visit.session.grant)
    feedback = store.on_questions(visit.services.database, namespaces, hashes, tenant=tenant)
    return {(question.namespace, question.text_hash): question for question in pooled(feedback)}


def _page_data(visit: Visit) -> dict[str, Any]:
    compared = compared_by(visit)
    b = visit.pipeline.configurations[compared.b]
    form = {"a": compared.a, "b": compared.b, **_chosen_requests(visit)}
    return {
        "form": {**form, "n": _requests(visit), "questions": visit.parameters.get("questions") or "recent"},
        "names": compared.names,
        "configurations": list(visit.pipeline.configurations),
        "sources": _SOURCES,
        "most": _MOST,
        "requests": len(compared.rows),
        "newest": compared.rows[0].namespace if compared.rows else None,
        "awaited": round(number_of({"awaited": "0", **visit.parameters}, "awaited", 0, MOST_QUESTIONS)),
        "state": {**address_of(visit.parameters), "b": compared.b},
        "weights": {branch.name: branch.weight for branch in visit.pipeline.branches_of(b)},
        "k": b.k,
        "live": _live(visit, compared),
        "shadow": _shadow(visit, compared),
        "comparison": {**asdict(compared.replayed), "judged": summary(compared.replayed.judged)},
        "candidate": compared.candidate and _block(visit, compared.candidate, _remark(compared)),
        "tuning": _tuned(visit, compared) if "tune" in visit.parameters else None,
    }


def _live(visit: Visit, compared: Compared) -> dict[str, Any] | None:
    """What people prefer on the pages that A and B share; None if the pipeline does not interleave these two."""
    from evaluation.recorded.live_comparison import compare_live

    declared = visit.pipeline.interleaving
    if declared is None or not _are_sides(compared, declared):
        return None
    # Looking through the whole trail for shared pages would take long.
    among = store.REQUESTS_WITH_FEEDBACK
    which = visible_to(visit.session.grant, **_chosen_requests(visit), among=among)
    live = compare_live(
        declared.a, declared.b, impressions(visit.services.database, declared.a, declared.b, which)
    )
    return {**live.to_wire(), "verdict": live.verdict}


def _shadow(visit: Visit, compared: Compared) -> dict[str, Any] | None:
    """What B answered to the same requests on the bulk workers; None if the pipeline has no such shadow, or there is none yet."""
    from evaluation.recorded.shadow_comparison import compare_shadows

    declared = visit.pipeline.shadow
    if declared is None or not _are_sides(compared, declared):
        return None
    a, b = declared.a, declared.b
    which = visible_to(visit.session.grant, **_chosen_requests(visit))
    pairs = shadow_pairs(visit.services.database, a, b, which, newest=_MOST_WITH_SHADOWS)
    if not pairs:
        return None
    judged = _judged(visit, {pair.namespace for pair in pairs}, {pair.text_hash for pair in pairs})
    return compare_shadows(a, b, pairs, judged).to_wire()


def _are_sides(compared: Compared, pair: LivePair) -> bool:
    return not compared.candidate and compared.b == pair.b and compared.a in (None, pair.a)


def _remark(compared: Compared) -> str:
    replayed, (a, b) = compared.replayed, compared.names
    if replayed.judged.gain is None:
        return f"{b}: overlap@10 with {a} is {replayed.overlap:.2f} over {replayed.questions} questions; none is judged"
    return f"{b}: {_interval(replayed.judged.gain)} over {a}"


def _interval(gain: Gain) -> str:
    interval = f"{gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
    return f"nDCG@10 {interval} on {gain.questions} judged questions"


def _block(visit: Visit, configuration: Configuration, remark: str) -> dict[str, Any]:
    """What an editor of the pipeline file adds to it."""
    from evaluation.tuning.tuned_file import configuration_block

    source = visit.services.settings.pipeline_file
    return {"name": configuration.name, "block": configuration_block(configuration, [remark], source)}


def _tuned(visit: Visit, compared: Compared) -> dict[str, Any]:
    """What tuning on the judged questions chooses, or why it does not."""
    from evaluation.tuning.recorded_lists import tune_recorded

    if not _tuning.acquire(blocking=False):
        return {"why": "another tuning runs: open this page again in a moment"}
    try:
        tuning = tune_recorded(compared.rows, visit.pipeline, compared.judged, name="tuned", limit_s=TUNING_S)
    except ServiceError as error:
        return {"why": str(error)}
    finally:
        _tuning.release()
    chosen = tuning.configuration
    remark = f"{_interval(tuning.over_best)}, held out, over {tuning.best_existing}"
    return {
        "why": None,
        "weights": {branch.name: branch.weight for branch in visit.pipeline.branches_of(chosen)},
        **tuning.to_wire(),
        **_block(visit, chosen, remark),
    }


def _chosen(parameters: Mapping[str, str], name: str, known: Sequence[str]) -> str | None:
    """The value of the parameter; None if the address has none.  Raises InvalidRequest, which lists the table."""
    chosen = parameters.get(name)
    if chosen is not None and chosen not in known:
        raise InvalidRequest(f"{name}: no {safe_repr(chosen)}; there are: {', '.join(known)}")
    return chosen


PAGES = (
    Page("/compare", "Compare", "compare.html", show, ("audit:read",), post=ask_file, most_bytes=MOST_BYTES),
)
