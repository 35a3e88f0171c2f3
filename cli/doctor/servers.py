"""The servers that answers need: the broker, the stores and the language models.  Each is asked once, without any cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from chorale_client.wire_names import Reason

from cli.doctor.reports import finding_of
from cli.installation import Installation
from config.declarations import StoreDeclaration
from config.model_declarations import DEFAULT_ENCODER
from models.declarations import cypher
from models.declarations.http_placeholders import placeholders
from models.documents import Manifest
from models.errors import BadIndex, StageFailure, UnknownNamespace
from monitoring.checks import Finding
from search.protocol import ChecksServer, Index, RunsCypher, Search, TakesVectors

if TYPE_CHECKING:
    from search.protocol import Engine, Searches
    from tasks.branches.generators import Endpoint

ANSWER_LIMIT_S = 5.0
PROMPT = "Say yes."
QUESTION = "chorale"


def broker(installation: Installation) -> Iterator[Finding]:
    url = installation.settings.broker_url
    if url is None:
        return
    from chorale_client.connections.urls import broker_tls, celery_url, without_password
    from kombu import Connection

    from monitoring.queues import CONNECT_LIMIT_S

    with Connection(celery_url(url), ssl=broker_tls(url), connect_timeout=CONNECT_LIMIT_S) as connection:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, reraise_as_library_errors=False)
        except (OSError, *connection.connection_errors, *connection.channel_errors) as error:
            yield Finding(
                f"the broker at {without_password(url)} cannot be used: {type(error).__name__}: {error}",
                "start it, or correct CHORALE_BROKER_URL (user, password, virtual host) for every process",
            )


def stores(installation: Installation) -> Iterator[Finding]:
    resources = installation.resources
    writes = resources.written_stores
    indexed = ["default"]
    with suppress(StageFailure):  # another check reports this failure
        indexed = [state.name for state in installation.corpus.namespaces(limit=1)] or indexed
    for name, declared in installation.pipeline.stores.items():
        try:
            store = resources.store(name)
            if name in writes:
                cast("Engine", store).has(Index("default", 0, "default.v0", Manifest("", "none", "", "", 0)))
                if isinstance(store, ChecksServer):
                    store.check_server()
            else:
                namespace = (declared.options.get("namespaces") or indexed)[0]
                _search(installation, name, store, namespace)
        except StageFailure as failure:
            where, mend = f"store {name!r} ({failure.reason}): ", _mend(failure, "the store")
            finding = finding_of(failure, where=where, mend=mend)
            if isinstance(failure, BadIndex) and _may_lack_namespace(declared):
                mend = f"nothing, if it has no namespace {indexed[0]!r}; its option `namespaces` names those that it has"
                finding = replace(finding, mend=mend, is_remark=True)
            yield finding


def _may_lack_namespace(declared: StoreDeclaration) -> bool:
    options = declared.options
    return declared.kind == "http" and not options.get("namespaces") and "namespace" in placeholders(options)


def _search(installation: Installation, name: str, store: Searches, namespace: str) -> None:
    """Search as the branches of the store do; raises the StageFailure that they would have."""
    search, resources = Search(depth=1, timeout_s=ANSWER_LIMIT_S), installation.resources
    if isinstance(store, RunsCypher):
        _run_statements(installation, name, store, namespace, search)
    elif isinstance(store, TakesVectors) and store.takes_vectors:
        named = (
            branch.encoder
            for branch in resources.pipeline.branches
            if branch.store == name and branch.encoder
        )
        manifest = resources.manifest(namespace, ANSWER_LIMIT_S)
        encoder = resources.encoders[next(named, manifest.encoder if manifest else DEFAULT_ENCODER)]
        vectors = encoder.questions.embed_questions([QUESTION], timeout_s=ANSWER_LIMIT_S)
        store.search_vectors(namespace, vectors, search)
    else:
        store.search_text(namespace, [QUESTION], search)


def _run_statements(
    installation: Installation, name: str, store: RunsCypher, namespace: str, search: Search
) -> None:
    """Run each statement that only reads, without a name in the question.  An installation without documents has no graph."""
    with suppress(UnknownNamespace):
        installation.resources.store(name).warm(namespace)
    for branch in installation.pipeline.branches:
        for statement in cypher.statements(branch.options) if branch.store == name else ():
            if cypher.writing_word(statement) is None:
                filters = dict.fromkeys(cypher.parameters(statement))
                values: dict[str, Any] = {**filters, "question": QUESTION, "entities": []}
                with suppress(UnknownNamespace):
                    store.search_cypher(namespace, statement, [values], search)


def language_models_time(installation: Installation) -> Iterator[Finding]:
    """Find configurations without timeout_s whose default time is too short for a branch's language model."""
    from chorale_client.request import Request

    from tasks.branches.generation import SEARCH_RESERVE_S
    from tasks.request.planning.plans import reserves_ms

    generators = installation.resources.generators
    request_s: float = Request.model_fields["timeout_s"].default
    for configuration in installation.pipeline.configurations.values():
        if configuration.timeout_s is not None:
            continue
        budget_ms = configuration.reranker.budget_ms if configuration.reranker else 0
        most_s = request_s - reserves_ms(request_s, budget_ms)[1] / 1000 - SEARCH_RESERVE_S
        for branch in installation.pipeline.branches_of(configuration):
            options = generators.options(branch.name)
            if options is not None and options.calls_model and options.limit_s > most_s:
                yield Finding(
                    f"configuration {configuration.name!r} has no timeout_s: of the {request_s:g} s of a request that "
                    f"gives none the language model of {branch.name} has at most {most_s:.1f} s, not its limit_s of "
                    f"{options.limit_s:g} s",
                    f"declare timeout_s in [configurations.{configuration.name}], above that limit_s",
                )


def language_models(installation: Installation) -> Iterator[Finding]:
    generators = installation.resources.generators
    endpoints: dict[tuple[object, ...], tuple[Endpoint, list[str]]] = {}
    for branch in installation.pipeline.branches:
        options = generators.options(branch.name)
        if options is not None and options.calls_model:
            # The generator of a package has an endpoint of its own.
            key = (branch.name,) if options.is_foreign else (options.url, options.model, options.api_key_env)
            endpoints.setdefault(key, (options, []))[1].append(branch.name)
    for options, branches in endpoints.values():
        try:
            _call_model(options)
        except StageFailure as failure:
            yield Finding(
                f"the language model of {', '.join(branches)} ({failure.reason}): {failure.detail}",
                _mend(failure, "the branch"),
            )


def _call_model(options: Endpoint) -> None:
    """Ask the endpoint; raises the StageFailure that the branch of a request would have."""
    from tasks.branches.hyde import HydeOptions, open_generator

    text: object
    if isinstance(options, HydeOptions) and options.is_foreign:
        (text,) = open_generator(options).imagine([PROMPT], timeout_s=options.limit_s)
    else:
        (text,) = options.open_chat().complete([PROMPT], timeout_s=options.limit_s)
    if isinstance(text, StageFailure):
        raise text


def _mend(failure: StageFailure, declared: str) -> str:
    """How to mend a failure whose own message does not say it; `declared` is what the pipeline declares."""
    return {
        Reason.NOT_CONFIGURED: "give it what it names, to the workers too, and restart them",
        Reason.UNAUTHORISED: "give the workers the right key and restart them: until then its branches are left out",
        Reason.UNAVAILABLE: f"start that server, or correct the address of {declared} in the pipeline",
        Reason.TIMEOUT: "find out why that server is slow, or raise its time limit",
    }.get(failure.reason, f"correct the declaration of {declared} in the pipeline")
