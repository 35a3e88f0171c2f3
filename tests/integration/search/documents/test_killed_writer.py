"""A writer that is killed at any point."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from search.engines.embedded.store import EmbeddedStore
from tests.support.pipelines.pipeline import FORK_SERVER
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, a_document, indexed_revisions, opened

WAIT_S = 30.0
"""PostgreSQL releases the lock of a killed writer only once it has noticed its end."""
WRITE = "from {module} import write_and_die; write_and_die({url!r}, {folder!r}, {place})"


def write_and_die(url: str, folder: str, place: int) -> None:
    """Runs in its own process, which is killed at the given point."""
    texts, vectors = FailingStore(Path(folder, "texts")), FailingStore(Path(folder, "vectors"))
    store = opened(url, writer_wait_s=WAIT_S, texts=texts, vectors=vectors)

    def kill(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    places = (
        (store.table, "put"),
        (texts, "before_write"),
        (store.table, "record"),
        # Last, so that a difference between the stores remains.
        (vectors, "before_write"),
    )
    target, name = places[place]
    setattr(target, name, kill)
    store.upsert(NS, [a_document(f"d{number}", revision=str(place + 2)) for number in range(5)])


@pytest.mark.slow
def test_a_writer_that_is_killed_anywhere_loses_nothing_and_doubles_nothing(
    url: str, tmp_path: Path, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store = opened(url, writer_wait_s=WAIT_S, texts=texts, vectors=vectors)
    store.create(NS, MANIFEST)
    store.upsert(NS, [a_document(f"d{number}", passages=2) for number in range(5)])
    store.close()
    for place in range(4):
        code = WRITE.format(module=__name__, url=url, folder=str(tmp_path), place=place)
        assert FORK_SERVER.fork(code, os.environ).wait(30) == -signal.SIGKILL
    committed = store.revisions(NS, "tests")
    # The first process was killed before its batch was in the database, the others after it.
    assert committed == {f"d{number}": "5" for number in range(5)}
    before = store.generation(NS)
    assert store.settle(NS) == {}
    assert indexed_revisions(texts) == indexed_revisions(vectors) == committed
    assert [state.passages for state in store.namespaces()] == [5]
    assert store.generation(NS) > before
    assert store.settle(NS) == {}
    store.close()
