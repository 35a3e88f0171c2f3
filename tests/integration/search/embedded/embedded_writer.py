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

from search.documents.document_rows import insert_documents
from search.embedded import lexical_index as lexical
from search.embedded import writer
from search.embedded.store import EmbeddedStore
from tests.contracts.store_documents import EAST, NORTH, document


def die(*_arguments: Any, **_options: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(function: Callable[..., Any]) -> Callable[..., None]:
    def run_and_die(*arguments: Any, **options: Any) -> None:
        function(*arguments, **options)
        die()

    return run_and_die


POINTS: dict[str, tuple[str, Callable[..., None]]] = {
    "before anything": ("check_index", die),
    "in the first transaction": ("insert_documents", after(insert_documents)),
    "before the words": ("write_index", die),
    "after the words": ("write_index", after(lexical.write_index)),
    "in the last transaction": ("_show", after(writer._show)),
}


def write(folder: Path, first: int, dies: str | None) -> None:
    store = EmbeddedStore(folder)
    if dies is not None:
        name, function = POINTS[dies]
        setattr(writer, name, function)
    n = first
    while True:
        shared = document("shared", f"batch{n} always", "always", vectors=(EAST, NORTH))
        store.upsert("ns", [shared, document(f"new-{n}", f"new{n} always")])
        print(n, flush=True)
        n += 1


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
