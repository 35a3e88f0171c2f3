"""What a process loads before it takes its first message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from celery import Celery
from chorale_client.words import QUEUE_FUSION, QUEUE_RETRIEVE

if TYPE_CHECKING:
    from tasks.resources import Resources


def warm(app: Celery, queues: Sequence[str]) -> None:
    """Load what the tasks on these queues need, and publish the corpus generations that Redis does not have."""
    resources: Resources = app.resources
    branches = [branch for branch in resources.pipeline.branches if branch.queue in queues]
    resources.kinds = {branch.kind for branch in branches}
    if "hyde" in resources.kinds:
        resources.embedder.warm()
    elif "vector" in resources.kinds:
        resources.embedder.questions.warm()
    stores = {branch.store for branch in branches}
    if QUEUE_FUSION in queues:
        stores |= set(resources.pipeline.stores)
    for name in sorted(stores):
        resources.store(name).warm()
    if QUEUE_RETRIEVE in queues:
        _ = resources.fingerprints
        for state in resources.writing_store.namespaces():
            resources.publish_generation(state.name, state.generation)
    # The scripts, the connections and the chord's templates.
    resources.redis.ping()
    _ = app.fanout
