"""The plan of a request: every value resolved once, so that no worker mixes in a configuration of its own; and what questions cost.

The cost of a question is the estimated time of one core with the default model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from chorale_client.request import Question, Request
from chorale_client.wire_names import WIRE_VERSION
from chorale_client.wire_reader import read_request
from pydantic import BaseModel, ConfigDict

from models.boost_plan import BoostPlan


class _Resolved(BaseModel):
    # Unknown fields are ignored: during a deploy, this version may fuse plans that the next one wrote.
    model_config = ConfigDict(frozen=True, extra="ignore")


class BranchPlan(_Resolved):
    """One part of the fan-out."""

    name: str
    kind: str
    """`bm25`, `vector`, `hyde`: names the task `chorale.search.<kind>`."""
    group: str
    """Branches of one group share an encoder; `rrf-grouped` fuses inside it first."""
    store: str
    encoder: str | None = None
    """The encoder that embeds for it; None: the first one of the namespace."""
    queue: str
    weight: float
    depth: int
    """Documents for each question."""
    scores: str | None = None
    """What its scores are, if it declares that: `bm25` or `rank`."""
    floor: float | None = None
    """The lowest score that any document can have, for methods that use scores; None if there is none."""
    half: float | None = None
    """The score that the method `bounded` gives .5."""
    returns_query_inputs: bool = False
    """Its rankings say what was searched with, so that the fusion can complete them."""
    limit_ms: int
    """Time limit, counted from publication; never beyond `join_at`."""
    options: dict[str, Any] = {}
    """The declared options, for kinds that read them from the plan."""
    is_decisive: bool = False
    """With `on_missing: fail`: the request ends as soon as this branch has failed."""
    hedge_after_ms: int | None = None
    """Time from publication after which a branch without an answer gets a second message; None: never."""
    lease_ms: int = 0
    """Time from its start after which a part without an answer is sent again, since its worker may have died; 0: never."""
    is_costly: bool = False
    """The request would keep others waiting (`tasks.request.planning.cost`): the part is sent once, and counts for no breaker and no
    duration."""


class RerankPlan(_Resolved):
    """Which fused hits a cross-encoder scores, and the weight of its scores."""

    name: str
    """The declared name of the reranker; the fusion workers have loaded its model."""
    depth: int
    """Candidates of a question."""
    coarse: int
    """Scores are normalised over this many fused hits; no later hit comes onto a page before them."""
    budget_ms: int
    weight: float
    """Share of the reranked score; the fused score has the rest."""


class QuestionRules(_Resolved):
    """What the rules of the namespace do to one question."""

    pinned: dict[str, str] = {}
    """The rule by document id, in the order in which the documents come first."""
    blocked: dict[str, str] = {}
    """The rule by document id."""
    also: tuple[str, ...] = ()
    """Words that BM25 searches too."""
    synonyms: tuple[str, ...] = ()
    """The rules that `also` comes from."""


# Whether a request is costly has to be known of each message before it is worked on, so a plan is not parsed for it: only the
# JSON of a costly plan begins with this field.  `tasks.request.planning.cost.placed_branches` gives all branches of a plan the same values.
_COSTLY = b'{"cost":"bulk",'


def is_costly(plan: bytes | None) -> bool:
    """Whether this is the JSON of the plan of a costly request, which runs on the bulk workers."""
    return plan is not None and plan.startswith(_COSTLY)


class FusionPlan(_Resolved):
    """How the lists of branches are fused."""

    configuration: str
    branches: tuple[BranchPlan, ...]
    method: str
    """The name of a fusion method."""
    k: float
    complete_scores: bool = False
    """Each branch also scores what only other branches found, before scores are fused."""
    trust_vectors: bool = False
    """Weights stay as declared in any language (`fusion.rankings`)."""
    weights_rule: str | None = None
    """The rule of the namespace from which the weights of `branches` come; None: they are declared, or the request's."""
    weights_by_type: dict[str, dict[str, float]] = {}
    """By type of question, the weights of branches that differ from those of `branches`."""
    boosts: BoostPlan | None = None
    fold: bool = True


class Plan(FusionPlan):
    """Written once, together with the publication of the chord."""

    v: int = WIRE_VERSION
    namespace: str
    rival: FusionPlan | None = None
    """Another configuration, whose hits share the page (`fusion.interleaving`); its branches are among those of the plan."""
    rerank: RerankPlan | None = None
    """None: the fused order stays, because the configuration or the request says so."""
    rules: dict[int, QuestionRules] = {}
    """By index; only the questions that a rule of the namespace concerns."""
    rules_version: int | None = None
    spare: int = 0
    """Documents of each branch's depth that take the places of blocked ones."""
    generation: int | None
    """The corpus generation when the plan was made."""
    models: dict[str, str] = {}
    """Model fingerprints, by use: `embedder`, `reranker`."""
    searched: tuple[int, ...]
    """Indices of the questions that the branches search: those that the cache did not answer."""
    cached: dict[int, dict[str, Any]] = {}
    """Answers of single questions from the cache, by index."""
    now: str
    """ISO 8601; the moment from which recency counts."""
    degraded: tuple[dict[str, str], ...] = ()
    """Parts that are already known to be missing: `{where, reason, detail}`."""
    stages: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    cacheable: bool = True
    """False with `cache: bypass`, and with a rival."""
    finish_reserve_ms: int
    fusion_reserve_ms: int

    def to_json(self) -> bytes:
        """JSON for the ledger, in which `is_costly` reads the cost."""
        written = self.model_dump_json().encode()
        return _COSTLY + written[1:] if any(branch.is_costly for branch in self.branches) else written

    @property
    def sides(self) -> tuple[Plan, ...]:
        """This plan and, if it has a rival, the plan as the rival fuses."""
        if self.rival is None:
            return (self,)
        return self, self.model_copy(update={**dict(self.rival), "rival": None})


@lru_cache(maxsize=16)
def read_planned(request: bytes, plan: bytes | None) -> tuple[Request, Plan | None]:
    """A request and its plan, as the ledger has them; raises ValueError.

    A worker that answers several branches and fuses them reads the same bytes each time.
    """
    return read_request(request).request, None if plan is None else Plan.model_validate_json(plan)


def searched_indices(request: Request) -> tuple[int, ...]:
    """The indices of the questions that branches search: those with a text, if the request wants retrieval."""
    return tuple(
        index
        for index, question in enumerate(request.questions)
        if request.needs_retrieval and question.text.strip()
    )


TEXT_S, CHARACTER_S, MOST_CHARACTERS = 0.001, 28e-6, 1_600
"""The time to embed a text; a model reads 256 word pieces of it at most."""
ORDINARY_S = 0.25
"""One question with its rewrites and hypothetical documents costs less than this, unless they are long."""
LINE_S = 0.003
"""The time to embed a question of 70 characters: an ordinary line of a job."""


def embedding_s(texts: Iterable[str]) -> float:
    """Seconds to embed these texts."""
    return sum(TEXT_S + CHARACTER_S * min(len(text), MOST_CHARACTERS) for text in texts)


def questions_s(questions: Sequence[Question]) -> float:
    """Seconds to embed everything that these questions bring."""
    return sum(
        embedding_s(
            [
                question.text,
                *(variant.text for variant in question.variants),
                *question.hypothetical_documents,
            ]
        )
        for question in questions
    )


def ordinary_calls(questions: Sequence[Question]) -> int:
    """For how many ordinary calls a call with these questions counts: one, or one for each quarter of a second."""
    return max(1, math.ceil(questions_s(questions) / ORDINARY_S))


def ordinary_lines(questions: Sequence[Question]) -> float:
    """For how many ordinary lines of a job a line with these questions counts: at least one."""
    return max(1.0, questions_s(questions) / LINE_S)
