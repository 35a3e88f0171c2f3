"""Parts of several requests that a worker has taken at once: those that are alike become one search.

The parts of one group have the same branch, store, depth, namespace, filters (with those that may be dropped) and exclusions.  Each keeps its own deadline:
a part with little time left is searched first and alone.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from contextlib import suppress

from branches.branch_task import BranchTask, TaskResources
from fusion.conditions import relaxable_filters
from fusion.rankings import DENSE
from ledger.protocol import Started
from models.branch_result import BranchResult
from models.errors import StageFailure
from models.extensions import BranchKind
from tasks.request.search import answer_together, open_part
from wiring.resources import Resources

HURRIED_S = 0.1
"""A part with less time left does not wait for others."""


def answer_parts(resources: Resources, started: Sequence[tuple[str, Started, int]]) -> list[BranchResult]:
    """One envelope for each branch name, its started part, and the wire version of its message; in order."""
    begun_s = time.monotonic()
    opened = [open_part(resources, name, one, begun_s, v) for name, one, v in started]
    envelopes = {at: one for at, one in enumerate(opened) if isinstance(one, BranchResult)}
    groups: dict[Hashable, list[tuple[int, BranchTask]]] = {}
    for at, part in enumerate(opened):
        if isinstance(part, BranchTask):
            groups.setdefault(_likeness(resources, part) or at, []).append((at, part))
    if len(groups) > 1:
        _embed(
            resources,
            [part for members in groups.values() for _, part in members if _likeness(resources, part)],
        )
    for members in sorted(groups.values(), key=lambda members: min(part.ends_at_s for _, part in members)):
        places, parts = zip(*members, strict=True)
        envelopes |= zip(places, answer_together(resources, parts, begun_s), strict=True)
    return [envelopes[at] for at in range(len(opened))]


def merges(resources: TaskResources, kind: BranchKind, branch: str) -> bool:
    """Whether parts of this branch can be searched together: a language model answers each request by itself."""
    options = resources.generators.options(branch)
    return kind.merges and not (options is not None and options.asks_a_model)


def _likeness(resources: Resources, part: BranchTask) -> Hashable | None:
    """Equal for parts that one search can answer; None for a part that is searched alone."""
    branch, request = part.branch, part.request
    kind = resources.pipeline.kinds.branches[branch.kind]
    if branch.is_costly or part.left_s < HURRIED_S or not merges(resources, kind, branch.name):
        return None
    if any(question.hypothetical_documents for question in part.questions):
        return None  # whether there was time to embed them is said of each request
    return (
        branch.name,
        branch.store,
        branch.depth,
        branch.tells_asked,
        repr(branch.options),
        request.namespace,
        request.fuse_by,
        repr(part.filters),
        relaxable_filters(request),
        request.exclude_ids,
    )


def _embed(resources: Resources, parts: Sequence[BranchTask]) -> None:
    """Embed the questions of all groups in one batch; each search then finds its vectors in this process's cache."""
    kinds = resources.pipeline.kinds.branches
    dense = [part for part in parts if "questions" in kinds[part.branch.kind].needs]
    texts = dict.fromkeys(text for part in dense for one in part.texts_of(DENSE) for text in one)
    if texts:
        with suppress(StageFailure):  # each search meets it again, and says so
            resources.questions.embed_questions(list(texts))
