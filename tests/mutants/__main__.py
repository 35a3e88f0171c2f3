"""`python -m tests.mutants [WORD...]`: runs the mutants whose promise or file contains one of the words; without words, all."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.mutants import ALL
from tests.mutants.mutant import run


def main(words: list[str]) -> int:
    chosen = [
        mutant
        for mutant in ALL
        if not words or any(word in f"{mutant.promise} {mutant.file}" for word in words)
    ]
    survivors = 0
    with ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 2) // 2)) as pool:
        for mutant, (noticed, how) in zip(chosen, pool.map(run, chosen), strict=True):
            survivors += not noticed
            print(f"{'red  ' if noticed else 'GREEN'}  {mutant.promise:60} {how}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants turned their test red")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
