"""Each main guarantee broken on purpose, by one line, to see its named test fail: `make mutants`.

A guarantee whose mutant passes is guarded by nothing.
"""

from tests.mutants import (
    of_deploys,
    of_faults,
    of_language_models,
    of_messages,
    of_overload,
    of_requests,
    of_reranking,
    of_servers,
    of_stores,
    of_the_ledger,
)

ALL = (
    *of_the_ledger.MUTANTS,
    *of_requests.MUTANTS,
    *of_messages.MUTANTS,
    *of_faults.MUTANTS,
    *of_overload.MUTANTS,
    *of_deploys.MUTANTS,
    *of_language_models.MUTANTS,
    *of_reranking.MUTANTS,
    *of_servers.MUTANTS,
    *of_stores.MUTANTS,
)
