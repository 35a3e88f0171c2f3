"""Turns an ended request into rows of the audit tables."""

from __future__ import annotations

import hmac
import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from chorale_client.request import RELAXABLE_FILTER, Request
from chorale_client.wire_names import BranchStatus
from pydantic_core import to_json

from models.shadow_ids import request_id_of
from records.audit.outbox import Ended, Unreadable

Row = dict[str, Any]

# Half of a hit is hashes, which do not compress; level 1 is 7 % larger than level 6 and takes half the time.
COMPRESSION = 1

EXPLANATION = (
    "score_kind",
    "source_type",
    "published_at",
    "branches",
    "boosts",
    "rerank",
    "pinned",
    "folded",
)
"""The fields of a hit that are kept beside its columns.  Text and snippet are not: they belong to the documents, and
highlight the question's words."""

_NAMES_FILTER = re.compile(r"(^|: )filter ")
"""A warning that names a field of a filter; the part of the pipeline that gives the warning may stand before it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One request as rows by table, values by column name."""

    request: Row
    questions: list[Row]
    branches: list[Row]
    hits: list[Row]
    has_callback: bool = False
    """Whether the request has a callback."""

    @property
    def identity(self) -> tuple[str, int]:
        return self.request["request_id"], self.request["accepted_at_ms"]


def is_in_hits_share(request_id: str, share: float) -> bool:
    """Whether the request is in the share whose hits are written; a shadow follows its request."""
    digest = sha256(request_id_of(request_id).encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def rows_of(ended: Ended, *, hash_key: bytes | None, with_hits: bool = True) -> Rows:
    """The rows of `ended`; with a `hash_key` they have keyed hashes in place of questions, and no filters and tags.
    Without `with_hits` they have neither hits nor candidates.

    Raises Unreadable if the JSON is not that of a request and its answer.
    """
    try:
        identity = {"request_id": ended.request_id, "accepted_at_ms": ended.accepted_at_ms}
        return Rows(
            request={**identity, **_request(ended, keep_texts=hash_key is None)},
            questions=[{**identity, **row} for row in _questions(ended, hash_key)],
            branches=[
                {**identity, **row}
                for row in _branches(ended, keep_texts=hash_key is None, with_hits=with_hits)
            ],
            hits=[{**identity, **row} for row in _hits(ended)] if with_hits else [],
            has_callback=bool(ended.request.get("on_end") or ended.request.get("linked")),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def _request(ended: Ended, *, keep_texts: bool) -> Row:
    request, answer = ended.request, ended.answer
    plan = ended.plan or {}
    return {
        "ended_at_ms": ended.ended_at_ms,
        "ended_by": ended.by,
        "status": answer["status"],
        "took_ms": answer.get("took_ms", ended.ended_at_ms - ended.accepted_at_ms),
        "namespace": column_of(request, "namespace"),
        "correlation_id": column_of(request, "correlation_id"),
        "tags": (request.get("tags") or {}) if keep_texts else {},
        "top_k": _option(request, "top_k"),
        "configuration": _plain(plan.get("configuration", request.get("configuration"))),
        "method": plan.get("method"),
        "generation": plan.get("generation"),
        "now": plan.get("now", request.get("now")),
        "models": plan.get("models") or {},
        "options": _options(request, keep_texts=keep_texts),
        "plan": {name: value for name, value in plan.items() if name != "cached"} or None,
        "degraded": answer.get("degraded") or [],
        "stages": answer.get("stages") or [],
        "warnings": [
            warning
            for warning in answer.get("warnings") or []
            if keep_texts or not _NAMES_FILTER.search(warning)
        ],
    }


def _questions(ended: Ended, hash_key: bytes | None) -> Iterator[Row]:
    answered = ended.answer.get("questions") or []
    cached = (ended.plan or {}).get("cached") or {}
    for position, question in enumerate(ended.request.get("questions") or []):
        answer = answered[position] if position < len(answered) else {}
        rewrites = {name: value for name, value in question.items() if name != "text" and value}
        yield {
            "position": position,
            "text": _plain(question["text"]) if hash_key is None else None,
            "rewrites": (rewrites or None) if hash_key is None else None,
            "text_hash": _hash(question["text"].encode(), hash_key),
            "status": answer.get("status", ended.answer["status"]),
            "cached": str(position) in cached,
            "ordered_by": answer.get("ordered_by"),
            "total_matches": answer.get("total_matches"),
        }


def _hash(text: bytes, key: bytes | None) -> str:
    """With a key, whoever has only the tables cannot find the text by hashing guesses."""
    return (sha256(text) if key is None else hmac.new(key, text, sha256)).hexdigest()


def _options(request: Row, *, keep_texts: bool) -> Row:
    # The arguments of linked tasks, and headers, are the user's.
    omitted = ("questions", "linked", "headers", *(() if keep_texts else ("filters", "tags")))
    options = {name: value for name, value in request.items() if name not in omitted}
    if not keep_texts and isinstance(relax := options.get("relax"), list):
        options["relax"] = [name for name in relax if not str(name).startswith(RELAXABLE_FILTER)]
    return options


def _branches(ended: Ended, *, keep_texts: bool, with_hits: bool) -> Iterator[Row]:
    # The warnings of a ranking name the filters, and the answer repeats them.
    omitted = ("texts", "query_inputs") if keep_texts else ("texts", "query_inputs", "warnings")
    plan = ended.plan or {}
    planned = {branch["name"]: branch for branch in plan.get("branches", ())} if plan.get("searched") else {}
    missing = {note["where"].removeprefix("search."): note for note in ended.answer.get("degraded") or ()}
    for name in {**planned, **ended.branch_results}:
        # The answer may say why an expected branch never reported.
        silent = {**missing.get(name, {}), "status": str(BranchStatus.FAILED)}
        branch_result, branch = ended.branch_results.get(name, silent), planned.get(name, {})
        is_omitted = not with_hits or branch_result.get("left_out")
        has_candidates = branch_result["status"] != BranchStatus.FAILED and not is_omitted
        rankings = _rankings(branch_result, omitted) if has_candidates else []
        for ranking, scores in zip(rankings, ended.completed or (), strict=False):
            ranking["completed"] = scores.get(name) or {}
        yield {
            "branch": name,
            "status": branch_result["status"],
            "reason": branch_result.get("reason"),
            "detail": _plain(branch_result.get("detail") or ""),
            "ms": branch_result.get("ms"),
            "attempt": branch_result.get("attempt"),
            "generation": branch_result.get("generation"),
            "weight": branch.get("weight"),
            "depth": branch.get("depth"),
            "candidates": zlib.compress(to_json(rankings), COMPRESSION) if has_candidates else None,
        }


def _rankings(branch_result: Row, omitted: Collection[str]) -> list[Row]:
    """Always without `texts`, which belong to the source even if they came with the hits, and without `query_inputs`."""
    return [
        {name: value for name, value in ranking.items() if name not in omitted}
        for ranking in branch_result["rankings"]
    ]


def _hits(ended: Ended) -> Iterator[Row]:
    for position, answer in enumerate(ended.answer.get("questions") or ()):
        for place, hit in enumerate(answer.get("hits") or (), start=1):
            yield {
                "question": position,
                "rank": hit.get("rank", place),
                "document_id": _plain(hit["document_id"]),
                "passage_id": _plain(hit.get("passage_id")),
                "score": hit.get("score"),
                "found_by": hit.get("found_by") or [],
                "explanation": {name: hit[name] for name in EXPLANATION if hit.get(name)},
            }


def column_of(request: Row, name: str) -> str | None:
    """The value of `namespace` or `correlation_id` as it is in the tables."""
    return _plain(_option(request, name))


def _option(request: Row, name: str) -> Any:
    """An option of the request, or its default."""
    return request.get(name, Request.model_fields[name].default)


def _plain(value: str | None) -> str | None:
    """Replace NUL, which PostgreSQL's text cannot contain."""
    return value.replace("\0", "\ufffd") if value else value
