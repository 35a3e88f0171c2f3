"""Every promise that Chorale makes, with its test.  Most promises also have a mutant: one changed line that breaks the
promise on purpose, to see the test fail (`make mutants`).  A promise whose mutant passes is guarded by nothing.

`python -m tests.mutants.matrix` writes the promises to docs/evidence/guarantees-matrix.md.
"""

from tests.mutants import (
    of_adapters,
    of_batches,
    of_cached_answers,
    of_celery,
    of_clients,
    of_deploys,
    of_endings,
    of_flower,
    of_forged_entries,
    of_http,
    of_http_jobs,
    of_input,
    of_jobs_through_the_client,
    of_language_models,
    of_missing_branches,
    of_observability,
    of_overload,
    of_policies,
    of_private_texts,
    of_reranking,
    of_stored_jobs,
    of_stores,
    of_tenants,
)
from tests.mutants.mutant import Mutant

SECTIONS = {
    "A request always ends": of_endings.PROMISES,
    "A fault costs the missing branch and nothing else": of_missing_branches.PROMISES,
    "Messages that a worker takes together": of_batches.PROMISES,
    "Entries that a caller's Redis login has written": of_forged_entries.PROMISES,
    "Policies": of_policies.PROMISES,
    "Breakers and overload": of_overload.PROMISES,
    "Cached answers": of_cached_answers.PROMISES,
    "Language models and variants": of_language_models.PROMISES,
    "Stores and other sources": of_stores.PROMISES,
    "Reranking": of_reranking.PROMISES,
    "Flower": of_flower.PROMISES,
    "Traces, metrics and logs": of_observability.PROMISES,
    "Bulk jobs": of_stored_jobs.PROMISES,
    "Bulk jobs from applications": of_jobs_through_the_client.PROMISES,
    "Celery applications": of_celery.PROMISES,
    "Adapters for other frameworks": of_adapters.PROMISES,
    "Searches over HTTP": of_http.PROMISES,
    "Jobs and documents over HTTP": of_http_jobs.PROMISES,
    "Keys and tenants": of_tenants.PROMISES,
    "Clients": of_clients.PROMISES,
    "Texts of strangers, and private files": of_private_texts.PROMISES,
    "Deploys": of_deploys.PROMISES,
    "Input": of_input.PROMISES,
}
ALL = tuple(one for promises in SECTIONS.values() for one in promises if isinstance(one, Mutant))
"""Every mutant."""
