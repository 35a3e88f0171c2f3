"""The ledger's guarantees broken by one line each; `make mutants` breaks the others too, which takes longer."""

from __future__ import annotations

import pytest

from tests.mutants.mutant import Mutant, run
from tests.mutants.of_the_ledger import MUTANTS


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guarantee)
def test_a_broken_guarantee_turns_its_test_red(mutant: Mutant) -> None:
    noticed, how = run(mutant)
    assert noticed, how
