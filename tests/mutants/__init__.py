"""Every promise that Chorale makes, with its test.  Most promises also have a mutant: one changed line that breaks the
promise on purpose, to see the test fail (`make mutants`).  A promise whose mutant passes is guarded by nothing.

`python -m tests.mutants.matrix` writes the promises to docs/evidence/guarantees-matrix.md.
"""

from tests.mutants import (
    of_batches,
    of_cached_answers,
    of_deploys,
    of_endings,
    of_input,
    of_language_models,
    of_missing_branches,
    of_overload,
    of_policies,
    of_reranking,
    of_stores,
)
from tests.mutants.mutant import Mutant

SECTIONS = {
    "A request always ends": of_endings.PROMISES,
    "A fault costs the missing branch and nothing else": of_missing_branches.PROMISES,
    "Messages that a worker takes together": of_batches.PROMISES,
    "Policies": of_policies.PROMISES,
    "Breakers and overload": of_overload.PROMISES,
    "Cached answers": of_cached_answers.PROMISES,
    "Language models and variants": of_language_models.PROMISES,
    "Stores and other sources": of_stores.PROMISES,
    "Reranking": of_reranking.PROMISES,
    "Deploys": of_deploys.PROMISES,
    "Input": of_input.PROMISES,
}
ALL = tuple(one for promises in SECTIONS.values() for one in promises if isinstance(one, Mutant))
"""Every mutant."""
