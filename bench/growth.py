"""Measures a request's cost and the requests a second as the corpus, the processes and the requests in flight grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import psutil

from bench import given_vectors
from bench.latency import compare
from bench.timing import ask_all
from bench.variants import ROLES, Layout, make_variants
from tasks.indexing.namespace_writer import manifest_for
from wiring.resources import Resources

NAMESPACE = "growth"
_BATCH = 2_000
_SEEDS = count()


def layout_of(processes: int) -> Layout:
    """As many worker processes for each branch and the fusion."""
    return {f"{role}-{number}": (role,) for role in ROLES for number in range(1, processes + 1)}


def fill(resources: Resources, held: int, size: int, progress: Callable[[int], object]) -> None:
    """Write the synthetic passages from `held` to `size`."""
    store = resources.writing_store
    store.create(NAMESPACE, manifest_for(resources, resources.indexing_embedder))
    done = held
    while done < size:
        end = min(size, done + _BATCH)
        store.upsert(NAMESPACE, list(given_vectors.passages(done, end)))
        progress(done := end)
    resources.generations.publish(NAMESPACE, store.generation(NAMESPACE))


def measure(
    resources: Resources,
    run_only: Callable[[Sequence[str]], dict[str, int]],
    size: int,
    processes: int,
    in_flight: Sequence[int],
    questions: int,
) -> Iterator[dict[str, Any]]:
    """A row for each number in flight; the processor time is summed over the processes of a role."""
    chord = make_variants(resources, {"namespace": NAMESPACE}, layout_of(processes))[0]
    ask_all(chord.ask, given_vectors.questions(20, size, seed=next(_SEEDS)))
    by_in_flight = {
        number: given_vectors.questions(max(questions, 4 * number), size, seed=next(_SEEDS))
        for number in in_flight
    }
    vector_mib = psutil.Process(run_only(["vector-1"])["vector-1"]).memory_info().rss // 2**20
    for row in compare([chord], by_in_flight, run_only=run_only, rounds=1):
        roles: Counter[str] = Counter()
        for name, ms in row["cpu_ms"].items():
            roles[name.partition("-")[0]] += ms
        spent = {role: round(ms, 2) for role, ms in roles.items()}
        yield {"passages": size, "processes": processes, "vector_mib": vector_mib, **row, "cpu_ms": spent}
