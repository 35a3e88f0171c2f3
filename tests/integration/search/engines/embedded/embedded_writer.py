"""A writer process for tests: writes batches of two documents and acknowledges each on stdout, until it is killed.

    python embedded_writer.py FOLDER FIRST [DIES]

Batch n replaces `shared` by two passages with the word `batchn`, and adds `new-n`.  With DIES, a key of POINTS, the
process kills itself at that point of batch FIRST.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from search.documents import document_rows, document_table
from search.engines.embedded import store as embedded
from tests.contracts.store_documents import EAST, NORTH, document
from tests.support.stores.one_engine import embedded_store


def die(*_arguments: Any, **_options: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(function: Callable[..., Any]) -> Callable[..., None]:
    def run_and_die(*arguments: Any, **options: Any) -> None:
        function(*arguments, **options)
        die()

    return run_and_die


POINTS: dict[str, tuple[Any, str, bool]] = {
    "before anything": (document_table.DocumentTable, "put", False),
    "in the first transaction": (document_table, "insert_documents", True),
    "before the words": (embedded, "write_index", False),
    "after the words": (embedded, "write_index", True),
    "in the last transaction": (document_rows, "prune", True),
}
"""The functions in which the process dies, and whether it calls them before."""


def write(folder: Path, first: int, dies: str | None) -> None:
    store = embedded_store(folder)
    if dies is not None:
        place, name, is_after = POINTS[dies]
        setattr(place, name, after(getattr(place, name)) if is_after else die)
    n = first
    while True:
        shared = document("shared", f"batch{n} always", "always", vectors=(EAST, NORTH))
        store.upsert("ns", [shared, document(f"new-{n}", f"new{n} always")])
        print(n, flush=True)
        n += 1


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
