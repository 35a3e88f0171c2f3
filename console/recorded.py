"""Past requests: their list, and one with the lists of its branches, fused again with other weights, k, depth and deadline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from chorale_client.answer import Hit
from chorale_client.errors import InvalidRequest
from chorale_client.wire_names import BranchStatus
from starlette.responses import RedirectResponse, Response

from api.audit import list_past_searches, visible_row
from console.charts import lanes, rank_chart, score_bars
from console.pages import Page, Visit, fields_of
from console.search import configurations_of, degraded_view, stored_answer
from console.searched_again import difference, search_again
from console.sessions import PATH
from evaluation.recorded.fusion_changes import FusionChanges, fused_with, reported_ms, smallest_swap
from evaluation.recorded.request import RecordedRequest
from evaluation.recorded.whereabouts import whereabouts
from models.plan import Plan
from models.tables.audit import RequestRow

WEIGHT = "weight."
"""Before the name of a branch, the parameter of its weight."""
_MOST_HITS = 20
"""Hits of a list."""
_FILTERS = ("status", "correlation_id", "namespace", "missing", "begins")


async def show_list(visit: Visit) -> dict[str, Any] | Response:
    """The beginning of an id leads to the request, if there is one alone."""
    filters: dict[str, Any] = {name: (visit.parameters.get(name) or "").strip() or None for name in _FILTERS}
    after = visit.parameters.get("after")
    page = await to_thread.run_sync(
        lambda: list_past_searches(visit.session.grant, visit.services, limit=50, after=after, **filters)
    )
    if filters["begins"] and len(page.searches) == 1 and after is None:
        ending = ".json" if visit.request.url.path.endswith(".json") else ""
        only = quote(page.searches[0].request_id, safe="")
        return RedirectResponse(f"{PATH}/requests/{only}{ending}", 303)
    return {"filters": filters, **page.model_dump(mode="json")}


async def show_one(visit: Visit) -> dict[str, Any]:
    request_id = visit.request.path_params["request_id"]
    row = await to_thread.run_sync(visible_row, visit.session.grant, visit.services, request_id)
    titles = {id_: hit.title for (_, id_), hit in (await stored_hits(visit, request_id)).items() if hit.title}
    again = visit.parameters.get("again")
    about = {
        "configurations": configurations_of(visit),
        "again": None if again is None else await difference(visit, row, again),
    }
    return await to_thread.run_sync(lambda: {**about, **summary(row), **_fused_again(visit, row, titles)})


async def stored_hits(visit: Visit, request_id: str) -> dict[tuple[int, str], Hit]:
    """The hits of the answer by question and document, empty if the answer has expired: the trail has ids alone."""
    answer = await stored_answer(visit, request_id)
    return {
        (position, hit.document_id): hit
        for position, question in enumerate(answer.questions if answer else ())
        for hit in question.hits
    }


def summary(row: RequestRow) -> dict[str, Any]:
    deadline_ms = float(row.options.get("timeout_s") or 2.0) * 1000
    return {
        "request": {
            **fields_of(row, "request_id", "namespace", "configuration", "method", "status", "took_ms"),
            **fields_of(row, "ended_by", "accepted_at_ms"),
            "degraded": degraded_view(row.degraded, row.stages),
            "questions": [question.text for question in row.questions],
        },
        "lanes": lanes(row.stages, deadline_ms),
    }


def _fused_again(visit: Visit, row: RequestRow, titles: Mapping[str, str]) -> dict[str, Any]:
    """The recorded lists under the changes of the address.  Raises InvalidRequest, ServiceError."""
    if row.plan is None or not any(branch.candidates for branch in row.branches):
        return {"fusion": None}
    recorded = RecordedRequest.read(row, visit.pipeline)
    position = _position(visit, recorded)
    base, gaps = _planned(visit, recorded)
    changes = changes_of(visit.parameters)
    plan = changes.applied(base)
    late = changes.late(recorded)
    is_changed = base is not recorded.plan or changes != FusionChanges()
    before = recorded.fused(recorded.plan, position)
    after = fused_with(recorded, base, changes, position) if is_changed else before
    was = {hit.document_id: rank for rank, hit in enumerate(before, start=1)}
    names = [branch.name for branch in plan.branches]
    bars = score_bars(after[:_MOST_HITS], names)
    answered = {hit.document_id: hit.rank for hit in row.questions[recorded.plan.searched[position]].hits}
    wanted = visit.parameters.get("document")
    rival = None if is_changed or base.rival is None else base.rival.configuration
    swap = None if rival else smallest_swap(recorded, base, changes, position, after)
    reported = reported_ms(recorded)
    return {
        "fusion": {
            "question": row.questions[recorded.plan.searched[position]].text,
            "position": position,
            "k": plan.k,
            "depth": max(branch.depth for branch in plan.branches),
            "deepest": max(branch.depth for branch in base.branches),
            "deadline_ms": changes.deadline_ms,
            "latest_ms": max([row.took_ms, *reported.values()]),
            "is_changed": is_changed,
            "configuration": visit.parameters.get("configuration"),
            "gaps": gaps,
            "rival": rival,
            "weights": [
                {"branch": new.name, "weight": new.weight, "recorded": old.weight, "series": series % 8}
                for series, (new, old) in enumerate(zip(plan.branches, base.branches, strict=True))
            ],
            "late": sorted(late),
            "hits": [
                {
                    "rank": rank,
                    "was": was.get(hit.document_id),
                    "document_id": hit.document_id,
                    "title": titles.get(hit.document_id) or hit.document_id,
                    "score": hit.score,
                    "bars": row_bars,
                    "boosts": hit.boosts,
                    "folded": [copy.document_id for copy in hit.folded],
                }
                for rank, (hit, row_bars) in enumerate(zip(after[:_MOST_HITS], bars, strict=True), start=1)
            ],
            "count": len(after),
            "chart": rank_chart(after, names, titles, answered if recorded.plan.rerank else None),
            "swap": None if swap is None else asdict(swap),
            "lists": [_list(recorded, name, position, reported.get(name), name in late) for name in names],
            "document": wanted,
            "whereabouts": None
            if wanted is None
            else asdict(whereabouts(recorded, plan, position, wanted, after, late=late)),
        }
    }


def _planned(visit: Visit, recorded: RecordedRequest) -> tuple[Plan, list[str]]:
    """The plan of the address's configuration, as recorded without one; and what the rows lack for it.  Raises InvalidRequest."""
    if (configuration := visit.parameters.get("configuration")) is None:
        return recorded.plan, []
    # The planner loads the kinds of stores, as `Visit.pipeline` does.
    from evaluation.recorded.replay import missing_lists, planned_under
    from models.errors import NotOffered

    try:
        plan = planned_under(recorded, configuration)
    except NotOffered as error:
        raise InvalidRequest(str(error)) from None
    return plan, [f"{gap.what}: {gap.why}" for gap in missing_lists(recorded, plan)]


def changes_of(parameters: Mapping[str, str]) -> FusionChanges:
    """Raises InvalidRequest."""
    weights = {
        name.removeprefix(WEIGHT): number_of(parameters, name, 0, 1_000)
        for name in parameters
        if name.startswith(WEIGHT)
    }
    k = number_of(parameters, "k", 0, 10_000) if "k" in parameters else None
    depth = round(number_of(parameters, "depth", 1, 1_000)) if "depth" in parameters else None
    deadline_ms = number_of(parameters, "deadline_ms", 0, 60_000) if "deadline_ms" in parameters else None
    return FusionChanges(weights, k, depth, deadline_ms)


def number_of(parameters: Mapping[str, str], name: str, lowest: float, highest: float) -> float:
    try:
        value = float(parameters[name])
    except ValueError:
        value = float("nan")
    if not isfinite(value) or not lowest <= value <= highest:
        raise InvalidRequest(
            f"{name}: a number from {lowest:g} to {highest:g}, not {parameters[name][:40]!r}"
        )
    return value


def _position(visit: Visit, recorded: RecordedRequest) -> int:
    position = round(number_of({"question": "0", **visit.parameters}, "question", 0, 63))
    if position >= len(recorded.plan.searched):
        raise InvalidRequest(f"question: the request searched {len(recorded.plan.searched)}, counted from 0")
    return position


def _list(
    recorded: RecordedRequest, name: str, position: int, reported: float | None, is_late: bool
) -> dict[str, Any]:
    """The first documents that a branch reported, or why there are none."""
    result = recorded.results.get(name)
    documents = recorded.documents(name, position) or {}
    why = ""
    if result is None:
        why = "it has not reported"
    elif not result.answered:
        why = f"{result.reason}: {result.detail}" if result.detail else str(result.reason)
    elif result.status == BranchStatus.OK and not result.rankings:
        why = "its list was not recorded"
    return {
        "branch": name,
        "reported_ms": reported,
        "is_late": is_late,
        "why": why,
        "count": len(documents),
        "hits": [
            {"rank": rank, "document_id": id_, "score": score}
            for rank, (id_, score) in enumerate(list(documents.items())[:_MOST_HITS], start=1)
        ],
    }


_ONE = "/requests/{request_id}"
PAGES = (
    Page("/requests", "Requests", "requests.html", show_list, ("audit:read",)),
    Page(_ONE, "Request", "request.html", show_one, ("audit:read",), is_listed=False, post=search_again),
)
