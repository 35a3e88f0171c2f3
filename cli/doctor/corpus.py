"""The documents, the model they were embedded with, and their generations in Redis."""

from __future__ import annotations

import time
from collections.abc import Iterator

from cli.doctor.reports import finding_of
from cli.installation import Installation
from cli.namespace_states import published, unknown_languages, unread_files
from config.model_declarations import DEFAULT_ENCODER, EndpointEncoder
from models.documents import NamespaceState
from models.errors import BadIndex, ServiceError, StageFailure, StoreUnavailable
from models.texts.known_words import ADVICE
from monitoring.checks import Finding
from search.documents.database import DatabaseUnavailable
from search.documents.reading import FromDocuments

_TIMEOUT_S = 10.0
_SETTLE_S = 0.5
"""The generation of a committed batch is in Redis within this time."""


def store_is_readable(installation: Installation) -> Iterator[Finding]:
    if not installation.resources.written_stores:
        return
    try:
        states = installation.resources.writing_store.namespaces()
    except DatabaseUnavailable as failure:
        yield unusable_database(installation, failure)
        return
    except StageFailure as failure:
        yield finding_of(failure)
        return
    for what, mend in unread_files(installation):
        yield Finding(what, mend)
    resources = installation.resources
    searched = sorted(resources.searched_stores & {*resources.written_stores})
    for state in states:
        stores = state.manifest.stores if state.manifest else []
        if stores and not {*stores} & {*resources.written_stores}:
            yield Finding(
                f"namespace {state.name!r} was moved to {', '.join(stores)}, which is not declared here",
                f"declare it, or let `chorale namespaces rebuild {state.name} --store {resources.written_stores[0]}` move it back",
            )
            continue
        try:
            for name in searched:
                store = resources.serving(name, state.name)
                if isinstance(store, FromDocuments):
                    # An embedded store would build an index that it lacks.
                    store.documents.index(state.name, _TIMEOUT_S)
                # As every search worker does when it starts.
                store.warm(state.name)
        except StageFailure as failure:
            where, mend = f"namespace {state.name!r}: ", "see the store's log"
            if isinstance(failure, BadIndex):
                mend = f"`chorale verify --namespace {state.name}` builds a lost index again"
            yield finding_of(failure, where=where, mend=mend)


def unusable_database(installation: Installation, failure: StoreUnavailable) -> Finding:
    """The finding for a documents' database that cannot be used; it names the variable with the address."""
    settings = installation.settings
    url = settings.documents_database_url
    shared = {settings.audit_url: "CHORALE_AUDIT_URL", settings.database_url: "CHORALE_DATABASE_URL"}
    variable = "CHORALE_DOCUMENTS_URL" if settings.documents_url else shared.get(url, "CHORALE_DOCUMENTS_URL")
    mend = f"start it, or correct {variable} (user, password, host, database), for every process"
    if "permission denied" in failure.detail:
        mend = f"let the user of {variable} own the database, or grant what is denied"
    return finding_of(failure, mend=mend)


def model(installation: Installation) -> Iterator[Finding]:
    encoders, states = installation.resources.encoders, _namespaces(installation)
    used = {name for state in states if state.manifest for name in state.manifest.embedders}
    for name in sorted({DEFAULT_ENCODER, *used}):
        encoded = [state for state in states if state.manifest and name in state.manifest.embedders]
        try:
            embedder = encoders[name].embedder
            own, comparable = embedder.fingerprint, embedder.comparable
        except ServiceError as error:
            names = ", ".join(state.name for state in encoded)
            whose = f" of the namespaces {names}" if names else ""
            yield Finding(
                f"the encoder {name!r}{whose} cannot be read: {error}",
                "set CHORALE_EMBEDDER to a folder with it, or a name on the hub"
                if name == DEFAULT_ENCODER
                else f"correct the table [encoders.{name}] of the pipeline file",
            )
            continue
        for state in encoded:
            built = state.manifest.embedders[name] if state.manifest else own
            if built != own and built in comparable:
                yield Finding(
                    f"namespace {state.name!r} keeps vectors in another precision than the encoder {name!r} computes here; both can "
                    "be compared",
                    f"nothing, or embed it again in the present precision: `chorale namespaces rebuild {state.name}`",
                    is_remark=True,
                )
            elif built != own:
                yield Finding(
                    f"namespace {state.name!r} was embedded by another model than the encoder {name!r}, "
                    f"{encoders.declared[name].model}",
                    "declare what it was built with (the default encoder: CHORALE_EMBEDDER), or embed it "
                    f"again: `chorale namespaces rebuild {state.name}`",
                )
        if isinstance(endpoint := encoders.declared[name], EndpointEncoder):
            yield Finding(
                f"the encoder {name!r} sends questions and documents to {endpoint.host}",
                "this is as declared; keep texts that must not leave this machine in namespaces of another encoder",
                is_remark=True,
            )
            try:
                encoders[name].embedder.warm()
            except StageFailure as failure:
                yield Finding(
                    f"the encoder {name!r} does not answer: {failure}",
                    "start its server, or correct its table",
                )
    for line in unknown_languages(installation.pipeline, states):
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
        published = "none" if copy is None else f"{copy:,}"
        yield Finding(
            f"namespace {name!r} has generation {own:,}, and Redis says {published}: old answers may come from the cache",
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
        return installation.corpus.namespaces()
    except StageFailure:
        raise ServiceError("the documents cannot be read: see the finding above") from None
