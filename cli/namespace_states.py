"""What a command knows and says of a namespace: its state in the store, and its generation in Redis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from redis.exceptions import RedisError

from models.errors import ServiceError
from models.texts.known_words import ADVICE, hardly_known

if TYPE_CHECKING:
    from rich.table import Table

    from cli.installation import Installation
    from config.declarations import Pipeline
    from models.documents import NamespaceState
    from search.documents.reading import Documents
    from search.documents.store import DocumentStore
    from tasks.indexing.message_order import WriteOrder
    from tasks.wiring.corpus import Corpus
    from tasks.wiring.resources import Resources


def check_namespace(value: str) -> None:
    """Raises BadParameter where `value` is no name of a namespace."""
    from chorale_client.request import check_namespace as check

    try:
        check(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--namespace") from None


def known(store: DocumentStore | Documents, namespace: str) -> NamespaceState | None:
    """The state of this namespace; None if the store has no such namespace."""
    return next(iter(store.namespaces(names=[namespace])), None)


def analysed_language(installation: Installation, namespace: str) -> str | None:
    """The language of the namespace's analyser; None if it cannot be read now."""
    with suppress(ServiceError):
        state = known(installation.corpus.documents, namespace)
        return state.manifest.language if state and state.manifest else None
    return None


def existing(installation: Installation, namespace: str) -> NamespaceState:
    """Raises UnknownNamespace, which says where it was looked for and which namespaces are there."""
    from config.addresses import server_of
    from models.errors import UnknownNamespace

    for state in installation.corpus.namespaces(names=[namespace]):
        return state
    there = [state.name for state in installation.corpus.namespaces(limit=20)]
    address = installation.corpus.documents_address
    place = str(installation.settings.home) if isinstance(address, Path) else server_of(address)
    raise UnknownNamespace(namespace, place, there)


def namespace_fields(state: NamespaceState, published: int | None) -> dict[str, Any]:
    """`published` is the generation in Redis; None if Redis has none."""
    return {**asdict(state), "published_generation": published}


def namespaces_table(namespaces: Iterable[Mapping[str, Any]], *, has_redis: bool = True) -> Table:
    """The rows are those of `namespace_fields`; `has_redis`: whether a Redis answers."""
    from cli.terminal import Text, plain_table

    table = plain_table("namespace", ">documents", ">passages", ">generation", "")
    for namespace in namespaces:
        in_redis = namespace["published_generation"]
        is_same = not has_redis or in_redis == namespace["generation"]
        differs = "" if is_same else f"Redis has {'none' if in_redis is None else in_redis}"
        counts = (f"{namespace[name]:,}" for name in ("documents", "passages", "generation"))
        table.add_row(Text(namespace["name"], "bold"), *counts, Text(differs, "yellow"))
    return table


def publish(resources: Resources, namespace: str) -> None:
    """Write the namespace's generation into Redis, for its readers; does nothing where no Redis answers."""
    state = known(resources.documents, namespace)
    if state is not None:
        with suppress(RedisError):
            resources.generations.publish(namespace, state.generation)


def published(installation: Installation, names: Sequence[str]) -> dict[str, int]:
    """The generations in Redis by namespace, without those that Redis does not have."""
    from chorale_client.keys import GENERATION

    if installation.redis is None or not names:
        return {}
    with suppress(RedisError):
        values = installation.redis.mget([GENERATION + name for name in names])
        return {name: int(value) for name, value in zip(names, values, strict=True) if value is not None}
    return {}


def order_of(installation: Installation, namespace: str) -> WriteOrder | None:
    """The place in the write order of a command that writes now: messages handed in earlier do not overwrite it.

    None where no Redis answers: then no message waits.
    """
    from chorale_client.index_tickets import next_stamp

    from tasks.indexing.message_order import WriteOrder

    redis = installation.redis
    return None if redis is None else WriteOrder(redis, namespace, next_stamp(redis))


def unknown_languages(pipeline: Pipeline, states: Iterable[NamespaceState]) -> Iterator[str]:
    """A line for each namespace whose encoder hardly knows its language."""
    if not any("questions" in pipeline.kinds.branches[branch.kind].needs for branch in pipeline.branches):
        return
    for state in states:
        if state.manifest and (sentence := hardly_known(state.name, state.manifest.known_words)):
            yield sentence


def language_lines(installation: Installation, namespace: str | None = None) -> list[str]:
    """The lines of `unknown_languages` with what to do about it, for one namespace or all; none if they cannot be read now."""
    lines: list[str] = []
    with suppress(ServiceError):
        documents = installation.corpus.documents
        if documents.file is None or documents.file.path.exists():
            states = documents.namespaces() if namespace is None else [known(documents, namespace)]
            lines = [
                f"{line}; {ADVICE}" for line in unknown_languages(installation.pipeline, filter(None, states))
            ]
    return lines


def unread_files(installation: Installation) -> Iterator[tuple[str, str]]:
    """What is wrong and how to mend it, for each file whose namespaces the documents' database lacks: an embedded store's own one, from before
    another store was declared, or for a single embedded store that of the several stores from before.  Raises BadIndex, StoreUnavailable."""
    from search.documents.reading import Documents

    corpus = installation.corpus
    for file, reader, mend in _other_files(corpus):
        if file.exists():
            with closing(Documents(file)) as other:
                names = sorted({*other.names()} - {*corpus.documents.names()})
            if names:
                yield f"the documents of {', '.join(names[:5])} are in {file}, which {reader}", mend


def _other_files(corpus: Corpus) -> Iterator[tuple[Path, str, str]]:
    """Each file that may have documents, which kind of installation does not read it, and how to mend that."""
    from search.documents.file_reading import file_of

    if not corpus.is_on_one_machine:
        for store in corpus.pipeline.stores.values():
            if store.kind == "embedded":
                file = corpus.file_of(store.name)
                mend = f"set CHORALE_DOCUMENTS_URL=sqlite:///{file} for every process, or move the file away"
                yield file, "an installation with several stores does not read by itself", mend
        return
    several, own = file_of(corpus.settings.documents_database_url), corpus.documents_address
    if several is not None and several != own:
        parts = "with those whose names go on with -wal and -shm"
        mend = f"stop every process, and move the file, {parts}, in place of {own}; or move it away"
        yield several, "an installation with a single embedded store does not read", mend


def unread_file_lines(installation: Installation) -> list[str]:
    """The lines of `unread_files`; none if they cannot be read now."""
    with suppress(ServiceError):
        return [f"{what}; {mend}" for what, mend in unread_files(installation)]
    return []
