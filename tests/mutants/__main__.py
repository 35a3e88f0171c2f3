"""`python -m tests.mutants [NAME...]`: those whose guarantee holds one of the words; all without."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.mutants import ALL
from tests.mutants.mutant import run


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in ALL if not names or any(name in mutant.name for name in names)]
    survivors = 0
    with ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 2) // 2)) as pool:
        for mutant, (noticed, how) in zip(chosen, pool.map(run, chosen), strict=True):
            survivors += not noticed
            print(f"{'red  ' if noticed else 'GREEN'}  {mutant.guarantee:60} {how}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants turned their test red")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
