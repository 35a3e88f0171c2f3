"""Being the one writer of a namespace for as long as a command takes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

if TYPE_CHECKING:
    from assembly.resources import Resources
    from cli.installation import Installation
    from models.documents import NamespaceState
    from search.protocol import Writes
    from tasks.indexing.write_order import WriteOrder


def known(store: Writes, namespace: str) -> NamespaceState | None:
    return next((state for state in store.namespaces() if state.name == namespace), None)


def publish(resources: Resources, namespace: str) -> None:
    """Tell readers of the namespace's generation, where a Redis answers."""
    state = known(resources.writing_store, namespace)
    if state is not None:
        with suppress(RedisError):
            resources.publish_generation(namespace, state.generation)


def order_of(around: Installation, namespace: str) -> WriteOrder | None:
    """Of a command that writes now: what was handed in before, and waits, does not write over it.  None where no Redis
    answers, in which nothing waits."""
    from chorale_client.handed_in import next_stamp

    from tasks.indexing.write_order import WriteOrder

    return None if around.redis is None else WriteOrder(around.redis, namespace, next_stamp(around.redis))


def check_namespace(value: str) -> str:
    """For a command's argument: wrong usage where it is no name of a namespace."""
    import typer
    from chorale_client.request import check_namespace as check

    try:
        return check(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--namespace") from None
