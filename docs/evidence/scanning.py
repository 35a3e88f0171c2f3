"""What vector search costs a process with the embedded store: `python -m docs.evidence.scanning FOLDER PASSAGES`.

FOLDER gets the synthetic passages of `tests.bench growth` that it lacks.  Two processes search them by the codes of shared segments, then two
others with floats of their own.  Printed are the milliseconds of processor time of a question alone and of 16 together, for 100 documents, and
the MiB that each process has of its own for vectors, while both are open.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from config.blas_threads import limit_threads

limit_threads()

import numpy as np  # noqa: E402
import psutil  # noqa: E402

from search.engines.embedded import vector_segments  # noqa: E402
from search.protocol import Search  # noqa: E402
from tests.bench import given_vectors  # noqa: E402
from tests.contracts.store_documents import MANIFEST  # noqa: E402
from tests.support.stores.one_engine import OneEngine, embedded_store  # noqa: E402

NAMESPACE = "growth"
_BATCH = 5_000


def _fill(store: OneEngine, size: int) -> None:
    store.create(NAMESPACE, replace(MANIFEST, dimension=given_vectors.DIMENSION))
    done = store.namespaces()[0].passages
    for first in range(done, size, _BATCH):
        store.upsert(NAMESPACE, list(given_vectors.passages(first, min(size, first + _BATCH))))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _own_mib() -> int:
    return int(psutil.Process().memory_full_info().uss) // 2**20


def _search(folder: Path, size: int, kind: str) -> None:
    if kind == "floats":
        vector_segments.SIZE = 1_000_000
    store = embedded_store(folder)
    texts = given_vectors.questions(16, size, seed=5)
    questions = given_vectors.GivenVectors().embed_questions(texts)
    store.list_documents(NAMESPACE, Search(1, timeout_s=300), order_by="document_id")
    before = _own_mib()

    def cpu_ms(count: int) -> float:
        times = []
        for _ in range(9):
            started = time.process_time()
            store.search_vectors(NAMESPACE, questions[:count], Search(100, timeout_s=300))
            times.append(time.process_time() - started)
        return round(float(np.median(times[1:])) * 1e3, 1)

    _say(f"one {cpu_ms(1)} ms, 16 {cpu_ms(16)} ms")
    sys.stdin.readline()
    _say(str(_own_mib() - before))
    sys.stdin.readline()


def _measured(folder: Path, size: int, kind: str) -> str:
    command = [sys.executable, "-m", "docs.evidence.scanning", str(folder), str(size), kind]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes: list[Any] = [subprocess.Popen(command, **pipes) for _ in range(2)]
    lines = [process.stdout.readline().strip() for process in processes]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
        lines.append(f"{process.stdout.readline().strip()} MiB")
    for process in processes:
        process.communicate("\n")
    return f"{kind}: {', '.join(lines)}"


def main() -> None:
    folder, size = Path(sys.argv[1]), int(sys.argv[2])
    if len(sys.argv) > 3:
        _search(folder, size, sys.argv[3])
        return
    _fill(embedded_store(folder), size)
    for kind in ("codes", "floats"):
        _say(_measured(folder, size, kind))


if __name__ == "__main__":
    main()
