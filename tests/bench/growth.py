"""Measures a request's cost and the requests a second as the corpus, the processes and the requests in flight grow."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import psutil

from tasks.indexing.namespace_writer import create_namespace
from tasks.wiring.resources import Resources
from tests.bench import synthetic_corpus
from tests.bench.installation import BenchInstallation, bench_installation
from tests.bench.no_op import PIPELINE_FILE
from tests.bench.timing import ask_all, compare
from tests.bench.variants import ROLES, Layout, make_variants

NAMESPACE = "growth"
_BATCH = 2_000
_SEEDS = count()


def layout_of(processes: int, *, replicas: bool = False) -> Layout:
    """As many worker processes for each branch and the fusion, or replicas that serve all of them."""
    if replicas:
        return {f"replica-{number}": ROLES for number in range(1, processes + 1)}
    return {f"{role}-{number}": (role,) for role in ROLES for number in range(1, processes + 1)}


def fill(resources: Resources, stored: int, size: int, progress: Callable[[str], None]) -> None:
    """Write the synthetic passages from `stored` to `size`."""
    store = resources.writing_store
    create_namespace(resources, NAMESPACE)
    done = stored
    while done < size:
        end = min(size, done + _BATCH)
        store.upsert(NAMESPACE, list(synthetic_corpus.passages(done, end)))
        progress(f"{(done := end):,} passages")
    resources.generations.publish(NAMESPACE, store.generation(NAMESPACE))


def measure(
    sizes: Sequence[int],
    processes: Sequence[int],
    in_flight: Sequence[int],
    questions: int,
    progress: Callable[[str], None],
    *,
    replicas: bool = False,
) -> Iterator[dict[str, Any]]:
    """A row for each size, number of processes and number in flight."""
    os.environ |= {
        "CHORALE_EMBEDDER_BACKEND": synthetic_corpus.BACKEND,
        "CHORALE_LAYOUT": "replicas" if replicas else "queues",
    }
    with tempfile.TemporaryDirectory(prefix="chorale-bench-") as home:
        for stored, size in pairwise([0, *sizes]):
            for number in processes:
                layout = layout_of(number, replicas=replicas)
                with bench_installation(PIPELINE_FILE, layout, home=Path(home)) as installation:
                    if number == processes[0]:
                        fill(installation.resources, stored, size, progress)
                    progress(f"{size:,} passages, {', '.join(layout)}")
                    yield from _rows(installation, size, number, in_flight, questions)


def _rows(
    installation: BenchInstallation, size: int, processes: int, in_flight: Sequence[int], questions: int
) -> Iterator[dict[str, Any]]:
    """The processor time is summed over the processes of a role."""
    resources, run_only = installation.resources, installation.run_only
    chord = make_variants(resources, {"namespace": NAMESPACE}, installation.layout)[0]
    ask_all(chord.ask, synthetic_corpus.questions(20, size, seed=next(_SEEDS)))
    by_in_flight = {
        number: synthetic_corpus.questions(max(questions, 4 * number), size, seed=next(_SEEDS))
        for number in in_flight
    }
    searching = next(name for name, roles in installation.layout.items() if "vector" in roles)
    vector_mib = psutil.Process(run_only([searching])[searching]).memory_info().rss // 2**20
    for row in compare([chord], by_in_flight, run_only=run_only, rounds=1):
        roles: Counter[str] = Counter()
        for name, ms in row["cpu_ms"].items():
            roles[name.partition("-")[0]] += ms
        spent = {role: round(ms, 2) for role, ms in roles.items()}
        yield {"passages": size, "processes": processes, "vector_mib": vector_mib, **row, "cpu_ms": spent}
