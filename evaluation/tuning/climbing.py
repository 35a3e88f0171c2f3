"""The climb of a configuration: it changes a weight, `k`, the depth, the completion of scores or a boost as long as nDCG@10 rises."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import permutations
from statistics import fmean, median

from config.declarations import Configuration, Pipeline
from evaluation.judged.collection import Judgements
from evaluation.judged.metrics import ndcg, without_itself
from evaluation.tuning.branch_lists import OfflineFusion, Recording
from models.boost_plan import BoostPlan

_ROUNDS = 12
_STARTS = 2
_LEAST_RISE = 0.002
"""A smaller rise of the mean is no reason for a change, or to leave an existing configuration."""
_STEP = 0.1
_KS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 100.0)
_WINDOWS = (20, 50, 100, None)
_RECENCIES = ((0.2, 365.0), (0.5, 365.0), (0.2, 1_825.0))
_AUTHORITY = 1.2
_MOST_SOURCE_TYPES = 8


class Values:
    """nDCG@10 of each recorded question under a configuration; each configuration is fused once."""

    def __init__(
        self,
        fusion: OfflineFusion,
        judgements: Judgements,
        own: Set[str],
        progress: Callable[[str, int], None],
    ) -> None:
        self._fusion, self._judgements, self._own, self._progress = fusion, judgements, own, progress
        self._known: dict[str, list[float]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, configuration: Configuration) -> list[float]:
        key = configuration.model_dump_json(exclude={"name", "timeout_s", "reranker", "adapt"})
        if key not in self._known:
            rankings = self._fusion.rankings(configuration)
            self._known[key] = [
                ndcg(without_itself(question_id, ranking, self._own), self._judgements[question_id])
                for question_id, ranking in rankings.items()
            ]
            self._progress(f"trying {configuration.method}", 1)
        return self._known[key]

    def mean(self, configuration: Configuration, questions: Sequence[int]) -> float:
        values = self.of(configuration)
        return fmean(values[place] for place in questions)


@dataclass
class Search:
    """The climb from existing configurations, with the questions that it may see."""

    pipeline: Pipeline
    recording: Recording
    values: Values
    name: str
    bounds: Mapping[str, tuple[float, float]] | None = None
    """By branch, the least and the greatest share of all weight; other branches keep theirs.  None: no bounds."""
    branches: tuple[str, ...] = ()
    halves: dict[str, float] = field(default_factory=dict)
    boosts: list[BoostPlan | None] = field(default_factory=list)
    source_types: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        lists = self.recording.lists
        # A question without a text has no lists.
        self.branches = tuple(dict.fromkeys(name for each in lists for name in each.rankings))
        best = {
            name: [top.hits[0].score for each in lists if (top := each.rankings.get(name)) and top.hits]
            for name in self.branches
        }
        self.halves = {
            name: round(median(scores), 4) for name, scores in best.items() if scores and median(scores) > 0
        }
        hits = [hit for each in lists for ranking in each.rankings.values() for hit in ranking.hits[:100]]
        self.source_types = sorted({hit.source_type.casefold() for hit in hits if hit.source_type})[
            :_MOST_SOURCE_TYPES
        ]
        declared = [each.boosts for each in self.pipeline.configurations.values() if each.boosts is not None]
        self.boosts = [None]
        if self.source_types or any(hit.published_at for hit in hits):
            self.boosts += declared
        if any(hit.published_at for hit in hits):
            self.boosts += [
                BoostPlan(recency_amount=amount, recency_half_life_days=days) for amount, days in _RECENCIES
            ]

    @property
    def existing(self) -> dict[str, Configuration]:
        """The configurations without a reranker, which takes no part in here, whose scores are known; the default one without
        its own reranker."""
        plain = {
            name: each
            for name, each in self.pipeline.configurations.items()
            if each.reranker is None and (self.recording.has_all_scores or not each.complete_scores)
        }
        default = self.pipeline.configurations[self.pipeline.default_configuration]
        return {self.default: default.model_copy(update={"reranker": None}), **plain}

    @property
    def default(self) -> str:
        """The name of the default configuration in the table."""
        name = self.pipeline.default_configuration
        is_reranked = self.pipeline.configurations[name].reranker is not None
        return f"{name} without its reranker" if is_reranked else name

    @property
    def methods(self) -> dict[str, Configuration]:
        """Every method with the weights of the default configuration; those that use scores also with complete scores."""
        default = self.pipeline.configurations[self.pipeline.default_configuration]
        plain = {"reranker": None, "boosts": None, "rank_window_size": None, "complete_scores": False}
        configurations = {}
        for method in self.pipeline.kinds.methods.values():
            halves = self.halves if method.name == "bounded" else None
            configuration = default.model_copy(update={**plain, "method": method.name, "halves": halves})
            configurations[method.name] = configuration
            if method.uses_scores and self.recording.has_all_scores:
                configurations[f"{method.name}, complete"] = configuration.model_copy(
                    update={"complete_scores": True}
                )
        return configurations

    def best(self, questions: Sequence[int]) -> Configuration:
        """The best configuration that the climb finds for these questions."""
        starts = [*self.existing.values(), *self.methods.values()]
        starts.sort(key=lambda configuration: -self._adjusted_mean(configuration, questions))
        # Some methods rank as others do under another name.
        distinct = {tuple(self.values.of(configuration)): configuration for configuration in reversed(starts)}
        chosen = sorted(distinct.values(), key=starts.index)[:_STARTS]
        ends = [self._climbed(configuration, questions, self._moves) for configuration in chosen]
        best = max(ends, key=lambda configuration: self._adjusted_mean(configuration, questions))
        return best.model_copy(update={"name": self.name, "reranker": None, "timeout_s": None, "adapt": None})

    def _adjusted_mean(self, configuration: Configuration, questions: Sequence[int]) -> float:
        is_existing = configuration in self.existing.values()
        return self.values.mean(configuration, questions) + (_LEAST_RISE if is_existing else 0.0)

    def best_weights(self, start: Configuration, questions: Sequence[int]) -> dict[str, float]:
        """The best weights for these questions, with everything else as in `start`."""
        return self.pipeline.shares_of(self._climbed(start, questions, self._weight_moves))

    def _climbed(
        self,
        configuration: Configuration,
        questions: Sequence[int],
        moves: Callable[[Configuration], Iterator[Configuration]],
    ) -> Configuration:
        reached = self.values.mean(configuration, questions)
        for _ in range(_ROUNDS):
            best = max(
                moves(configuration),
                key=lambda moved: self.values.mean(moved, questions),
                default=configuration,
            )
            if (value := self.values.mean(best, questions)) < reached + _LEAST_RISE:
                break
            configuration, reached = best, value
        return configuration

    def _moves(self, configuration: Configuration) -> Iterator[Configuration]:
        method = self.pipeline.kinds.method(configuration.method)
        yield from self._weight_moves(configuration)
        if method.best(1) != method.best(2):
            yield from (configuration.model_copy(update={"k": k}) for k in _KS if k != configuration.k)
        yield from self._branch_moves(configuration)
        for window in _WINDOWS:
            if window != configuration.rank_window_size:
                yield configuration.model_copy(update={"rank_window_size": window})
        if method.uses_scores and self.recording.has_all_scores:
            yield configuration.model_copy(update={"complete_scores": not configuration.complete_scores})
        for boosts in self.boosts:
            if boosts != configuration.boosts:
                yield configuration.model_copy(update={"boosts": boosts})
        for source_type in self.source_types:
            yield self._with_authority(configuration, source_type)

    def _with_authority(self, configuration: Configuration, source_type: str) -> Configuration:
        boosts = configuration.boosts or BoostPlan()
        authority = {**boosts.authority, source_type: boosts.authority.get(source_type, 1.0) * _AUTHORITY}
        rounded = {name: round(factor, 3) for name, factor in authority.items()}
        return configuration.model_copy(update={"boosts": boosts.model_copy(update={"authority": rounded})})

    def _weight_moves(self, configuration: Configuration) -> Iterator[Configuration]:
        """A tenth of all weight goes from one branch to another."""
        weights = self.pipeline.shares_of(configuration)
        bounds = self.bounds or dict.fromkeys(weights, (0.0, math.inf))
        for giver, taker in permutations(bounds, 2):
            (low, _), (_, high) = bounds[giver], bounds[taker]
            # In whole thousandths, so that rounding leads no weight out of its bounds.
            step = math.floor(1000 * min(_STEP, weights[giver] - low, high - weights[taker]) + 1e-6) / 1000
            moved = {**weights, giver: weights[giver] - step, taker: weights[taker] + step}
            if step > 0 and max(moved.values()) > 0:
                yield configuration.model_copy(
                    update={"weights": {name: round(value, 3) for name, value in moved.items()}}
                )

    def _branch_moves(self, configuration: Configuration) -> Iterator[Configuration]:
        """A tenth of all weight goes to a branch that the configuration leaves out."""
        weights = self.pipeline.shares_of(configuration)
        for name in self.branches:
            if name not in weights:
                moved = {other: round(value * (1 - _STEP), 3) for other, value in weights.items()}
                moved[name] = _STEP
                yield configuration.model_copy(update={"branches": tuple(moved), "weights": moved})
