"""Milliseconds to fuse 10,000 hits (ten branches of 1,000) with explanations for ten of them: `python -m docs.evidence.fusing [TIMES]`."""

from __future__ import annotations

import gc
import random
import sys
import time

from chorale_client.wire_names import Status

from fusion.answer import Pages, build_question
from fusion.branch_results import BranchAnswers
from models.branch_result import BranchResult
from models.hits import Hit, Ranking
from models.plan import BranchPlan
from tasks.wiring.pipeline import BUILT_IN
from tests.unit.fusion.builders import branch, fuse_question, plan, request

BRANCHES, HITS, DOCUMENTS = 10, 1_000, 5_000


def branch_result(name: str, chance: random.Random) -> BranchResult:
    scores = sorted((chance.uniform(0, 30) for _ in range(HITS)), reverse=True)
    found = zip(chance.sample(range(DOCUMENTS), HITS), scores, strict=True)
    hits = tuple(Hit(f"d{id_}#0", f"d{id_}", score, content_hash=f"h{id_}") for id_, score in found)
    return BranchResult(name, "ok", rankings=(Ranking(hits),))


def least_ms(
    method: str, branches: list[BranchPlan], branch_results: dict[str, BranchResult], times: int
) -> float:
    """The shortest of many times: what other processes take of the cores is no cost of the fusion."""
    asked, wanted = plan(branches, method=method), request(include=["ids", "explanation"])
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        fused = fuse_question(asked, branch_results, 0, wanted)
        build_question(BranchAnswers(wanted, asked), 0, Pages({0: fused}), Status.COMPLETE)
        spent.append(1_000 * (time.perf_counter() - started))
    return min(spent)


def main(times: int) -> None:
    chance = random.Random(7)
    branches = [branch(f"b{place}", 0.3, HITS) for place in range(BRANCHES)]
    branch_results = {one.name: branch_result(one.name, chance) for one in branches}
    gc.freeze()
    for name in BUILT_IN.methods:
        sys.stdout.write(f"{name:20} {least_ms(name, branches, branch_results, times):5.1f} ms\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
