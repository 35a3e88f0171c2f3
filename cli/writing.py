"""Being the one writer of a namespace for as long as a command takes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

if TYPE_CHECKING:
    from models.documents import NamespaceState
    from search.protocol import Store
    from tasks.resources import Resources


def known(store: Store, namespace: str) -> NamespaceState | None:
    return next((state for state in store.namespaces() if state.name == namespace), None)


def publish(resources: Resources, namespace: str) -> None:
    """Tell readers of the namespace's generation, where a Redis answers."""
    state = known(resources.writing_store, namespace)
    if state is not None:
        with suppress(RedisError):
            resources.publish_generation(namespace, state.generation)


def check_namespace(value: str) -> str:
    """For a command's argument: wrong usage where it is no name of a namespace."""
    import typer
    from chorale_client.request import check_namespace as check

    try:
        return check(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--namespace") from None
