"""The documents, the model they were embedded with, and their generations in Redis."""

from __future__ import annotations

import time
from collections.abc import Iterator

from cli.doctor.finding import Finding, finding_of
from cli.installation import Installation
from cli.namespace_states import ADVICE, published, unknown_languages
from models.documents import NamespaceState
from models.errors import ServiceError, StageFailure
from search.documents.database import DatabaseUnavailable

_SETTLE_S = 0.5
"""The generation of a committed batch is in Redis within this time."""


def store_is_readable(installation: Installation) -> Iterator[Finding]:
    store = installation.resources.writing_store
    try:
        states = store.namespaces()
    except DatabaseUnavailable as failure:
        settings = installation.settings
        is_shared = settings.documents_database_url == settings.audit_url
        variable = "CHORALE_AUDIT_URL" if is_shared else "CHORALE_DOCUMENTS_URL"
        yield Finding(
            failure.detail,
            f"start it, or correct {variable} (user, password, host, database), for every process",
        )
        return
    except StageFailure as failure:
        yield finding_of(failure)
        return
    for state in states:
        try:
            # As every search worker does when it starts.
            store.warm(state.name)
        except StageFailure as failure:
            yield finding_of(failure, where=f"namespace {state.name!r}: ")


def model(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    try:
        own = installation.resources.embedder.fingerprint
    except ServiceError as error:
        yield Finding(
            f"the model cannot be read: {error}",
            "set CHORALE_EMBEDDER to a folder with it, or a name on the hub",
        )
        return
    for state in _namespaces(installation):
        if state.manifest is not None and state.manifest.embedder != own:
            yield Finding(
                f"namespace {state.name!r} was embedded by another model or precision than {settings.embedder}",
                "set CHORALE_EMBEDDER (and _PRECISION) to what it was built with, or build it again: "
                f"`chorale index PATH… --namespace {state.name} --rebuild`",
            )
    for line in unknown_languages(installation.pipeline, _namespaces(installation)):
        yield Finding(line, ADVICE, is_remark=True)


def rerankers(installation: Installation) -> Iterator[Finding]:
    for name, declared in installation.pipeline.rerankers.items():
        try:
            _ = installation.resources.reranker(name).fingerprint
        except ServiceError as error:
            yield Finding(
                f"the reranker {name!r} ({declared.model}) cannot be read: {error}",
                "put the model there, on the fusion workers too, or correct the reranker in the pipeline",
            )


def generations(installation: Installation) -> Iterator[Finding]:
    installation.running_redis()
    if _differing(installation):
        time.sleep(_SETTLE_S)
    for name, (own, copy) in _differing(installation).items():
        said = "none" if copy is None else f"{copy:,}"
        yield Finding(
            f"namespace {name!r} has generation {own:,}, and Redis says {said}: old answers may come from the cache",
            f"repeat the last `chorale index PATH… --namespace {name}`: it changes nothing and publishes the generation again",
        )


def _differing(installation: Installation) -> dict[str, tuple[int, int | None]]:
    states = _namespaces(installation)
    copies = published(installation, [state.name for state in states])
    return {
        state.name: (state.generation, copies.get(state.name))
        for state in states
        if copies.get(state.name) != state.generation
    }


def _namespaces(installation: Installation) -> list[NamespaceState]:
    try:
        return installation.resources.documents.namespaces()
    except StageFailure:
        raise ServiceError("the documents cannot be read: see the finding above") from None
