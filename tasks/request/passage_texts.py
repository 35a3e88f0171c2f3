"""The texts of passages, from whichever store has them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from structlog import get_logger

from models.documents import PassageText
from models.errors import NotConfigured, StageFailure

if TYPE_CHECKING:
    from assembly.resources import Resources

log = get_logger("chorale.texts")


def texts_of(
    resources: Resources, store: str, namespace: str, passage_ids: Sequence[str], *, ends_at_s: float
) -> dict[str, PassageText]:
    """Titles and texts by passage id: of the store that found the passages, or where that holds none, or is away, of
    the next one that documents are indexed into; `ends_at_s` is by the monotonic clock.

    Raises TimeoutError, and where nobody has them StageFailure: why a store that should have did not give them.
    """
    failures: list[StageFailure] = []
    for name in _holders(resources, store):
        if (rest_s := ends_at_s - time.monotonic()) <= 0:
            break
        try:
            return resources.store(name).texts(namespace, passage_ids, timeout_s=rest_s)
        except TimeoutError:
            break
        except StageFailure as error:
            failures.append(error)
        except Exception as error:  # a store from outside may raise anything
            log.exception("no texts", store=name)
            failures.append(StageFailure(f"{type(error).__name__}: {error}"))
    if not failures:
        raise TimeoutError
    raise next((one for one in failures if not isinstance(one, NotConfigured)), failures[0])


def _holders(resources: Resources, store: str) -> list[str]:
    """The store, and those with the same documents."""
    written = [name for name in resources.pipeline.stores if f"{name}:write" in resources.capabilities]
    return [store, *(name for name in written if name != store)] if store in written else [store]
