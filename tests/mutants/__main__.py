"""`python -m tests.mutants [WORD...]`: runs the mutants with one of the words in them; without words, all."""

from __future__ import annotations

import sys

from tests.mutants import MUTANTS
from tests.mutants.breaking import running


def main(words: list[str]) -> int:
    chosen = tuple(one for one in MUTANTS if not words or any(word in repr(one) for word in words))
    missed = 0
    with running(chosen) as outcomes:
        for mutant, outcome in outcomes.items():
            is_noticed, why = outcome.result()
            missed += not is_noticed
            state = "noticed" if is_noticed else f"MISSED: {why}"
            print(f"{mutant.promise:16} {mutant.fault:90} {state}", flush=True)
    print(f"the tests noticed {len(chosen) - missed} of {len(chosen)} mutants")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
