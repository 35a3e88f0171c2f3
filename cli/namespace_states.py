"""What a command knows and says of a namespace: its state in the store, and its generation in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer
from redis.exceptions import RedisError

if TYPE_CHECKING:
    from cli.installation import Installation
    from models.documents import NamespaceState
    from search.protocol import Writes
    from tasks.indexing.write_order import WriteOrder
    from wiring.resources import Resources


def check_namespace(value: str) -> None:
    """Raises BadParameter where `value` is no name of a namespace."""
    from chorale_client.request import check_namespace as check

    try:
        check(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--namespace") from None


def known(store: Writes, namespace: str) -> NamespaceState | None:
    """The state of this namespace; None if the store has no such namespace."""
    return next((state for state in store.namespaces() if state.name == namespace), None)


def existing(installation: Installation, namespace: str) -> NamespaceState:
    """Raises UnknownNamespace, which says where it was looked for and which namespaces are there."""
    from models.errors import UnknownNamespace

    states = {state.name: state for state in installation.resources.writing_store.namespaces()}
    if namespace not in states:
        raise UnknownNamespace(namespace, str(installation.settings.home), states)
    return states[namespace]


def namespace_fields(state: NamespaceState, published: int | None) -> dict[str, Any]:
    """`published` is the generation in Redis; None if Redis has none."""
    return {**asdict(state), "published_generation": published}


def publish(resources: Resources, namespace: str) -> None:
    """Write the namespace's generation into Redis, for its readers; does nothing where no Redis answers."""
    state = known(resources.writing_store, namespace)
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

    from tasks.indexing.write_order import WriteOrder

    redis = installation.redis
    return None if redis is None else WriteOrder(redis, namespace, next_stamp(redis))
