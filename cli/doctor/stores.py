"""The stores that the pipeline declares: asks each once, as a search would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from chorale_client.words import Reason

from cli.doctor.finding import Finding, finding_of
from cli.installation import Installation
from models.errors import StageFailure
from search.protocol import Search

if TYPE_CHECKING:
    from search.protocol import Engine

ANSWER_LIMIT_S = 5.0
_MENDS = {
    Reason.NOT_CONFIGURED: "give it what it names, to the workers too, and restart them",
    Reason.UNAUTHORISED: "give the workers the right key and restart them: until then its branches are left out",
    Reason.UNAVAILABLE: "start that server, or correct the store's address in the pipeline",
    Reason.TIMEOUT: "see what that server is busy with",
}
"""How to mend a failure whose own message does not say it."""


def answer(installation: Installation) -> Iterator[Finding]:
    resources = installation.resources
    writes = resources.written_stores
    for name, declared in installation.pipeline.stores.items():
        try:
            store = resources.store(name)
            if name in writes:
                cast("Engine", store).has("default")
            else:
                namespace = (declared.options.get("namespaces") or ["default"])[0]
                store.search_text(namespace, ["chorale"], Search(depth=1, timeout_s=ANSWER_LIMIT_S))
        except StageFailure as failure:
            mend = _MENDS.get(failure.reason, "correct the store's declaration in the pipeline")
            yield finding_of(failure, where=f"store {name!r} ({failure.reason}): ", mend=mend)
