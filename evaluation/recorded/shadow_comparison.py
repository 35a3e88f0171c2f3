"""How the answers of B to shadows differ from those of A to users.  Pure.

Users saw A alone, so no clicks decide.  What is measured is what the trail has: other hits, times, and judged documents.  Each
pair is of A and of B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import fmean, median, quantiles
from typing import Any

from chorale_client.wire_names import Status

from evaluation.judged.judged_comparison import JudgedComparison, QuestionName, RankedQuestion, compare_judged
from records.audit.shadow_pairs import ShadowPair
from records.jobs.comparison import overlap
from records.judgements.pooling import JudgedQuestion

NO_CLICKS = "users saw A only, so clicks decide nothing here"


@dataclass(frozen=True, slots=True)
class ShadowComparison:
    a: str
    b: str
    pairs: int
    whole: int
    """Both answers are complete; everything below is about these."""
    changed_first: float
    """The share with another first hit."""
    overlap: float
    """Mean overlap of the first ten hits, or of as many as the request asked for."""
    median_ms: tuple[float, float]
    p95_ms: tuple[float, float]
    judged: JudgedComparison

    def to_wire(self) -> dict[str, Any]:
        judged = {name: getattr(self.judged, name) for name in ("questions", "ndcg", "unjudged", "better")}
        gain = self.judged.gain
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**plain, "judged": {**judged, "gain": gain and gain.to_wire()}}

    @property
    def sentences(self) -> list[str]:
        counted = f"{self.pairs:,} requests under {self.a} have a shadow under {self.b}"
        if not self.whole:
            return [f"{counted}, none with two complete answers"]
        (a_ms, b_ms), (a_p95_ms, b_p95_ms) = self.median_ms, self.p95_ms
        return [
            f"{counted}; of the {self.whole:,} with two complete answers {self.changed_first:.1%} have another first hit, "
            f"mean overlap@10 {self.overlap:.2f}",
            f"time without waiting for workers, median and p95: A {a_ms:,.0f} and {a_p95_ms:,.0f} ms, "
            f"B {b_ms:,.0f} and {b_p95_ms:,.0f} ms",
            NO_CLICKS,
        ]


def compare_shadows(
    a: str, b: str, pairs: Sequence[ShadowPair], judged: Mapping[QuestionName, JudgedQuestion]
) -> ShadowComparison:
    """`pairs`, newest first: of several questions with one text the newest is judged."""
    whole = [pair for pair in pairs if pair.statuses == (Status.COMPLETE, Status.COMPLETE)]
    ranked: dict[QuestionName, RankedQuestion] = {}
    for pair in whole:
        name = pair.namespace, pair.text_hash
        ranked.setdefault(name, RankedQuestion(name, pair.request_id, 0, "", pair.documents, {}))
    pages = [(tuple(ours), tuple(theirs)) for ours, theirs in (pair.documents for pair in whole)]
    ms_a, ms_b = ([pair.work_ms[side] for pair in whole] for side in (0, 1))
    return ShadowComparison(
        a=a,
        b=b,
        pairs=len(pairs),
        whole=len(whole),
        changed_first=fmean(ours[:1] != theirs[:1] for ours, theirs in pages) if pages else 0.0,
        overlap=fmean(overlap(ours, theirs) for ours, theirs in pages) if pages else 0.0,
        median_ms=(median(ms_a), median(ms_b)) if pages else (0.0, 0.0),
        p95_ms=(_p95(ms_a), _p95(ms_b)),
        judged=compare_judged(ranked.values(), judged),
    )


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else sum(values)
