"""What an ordinary request and the start cost beside many keys, namespaces, jobs and documents:
`python -m docs.evidence.many [SHARE] [ROUNDS] [REQUESTS]`.

Two installations start in turns.  Both have the namespace `ordinary` with 1,000 documents; the second one has 5,000 keys, 2,000
namespaces, 10,000 jobs of one line that wait, and 100,000 documents in one more namespace, or this SHARE of all of them.  Printed are the
seconds of each start, and the median and the 95th percentile of 100 REQUESTS one after another, in milliseconds.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from statistics import quantiles

from chorale_client import Chorale
from chorale_client.jobs.job import Submission

from config.blas_threads import limit_threads

limit_threads()

from cli.installation import upgraded_database  # noqa: E402
from cli.output import print_line  # noqa: E402
from records.jobs.job import JobsUnavailable, Line  # noqa: E402
from records.jobs.store import Jobs  # noqa: E402
from records.jobs.submitting import new_job  # noqa: E402
from records.keys.grant import Grant  # noqa: E402
from records.keys.key_store import KeyStore, KeysUnavailable  # noqa: E402
from tasks.indexing.namespace_writer import create_namespace  # noqa: E402
from tasks.wiring.resources import Resources  # noqa: E402
from tests.bench import synthetic_corpus  # noqa: E402
from tests.bench.growth import layout_of  # noqa: E402
from tests.bench.installation import bench_installation  # noqa: E402
from tests.bench.no_op import PIPELINE_FILE  # noqa: E402
from tests.bench.variants import Layout  # noqa: E402

KEYS, NAMESPACES, JOBS, DOCUMENTS = 5_000, 2_000, 10_000, 100_000
ORDINARY = 1_000
WARMING = 10
_BATCH = 2_000
_SEEDS = count()


def write(resources: Resources, namespace: str, documents: int) -> None:
    create_namespace(resources, namespace)
    for first in range(0, documents, _BATCH):
        passages = synthetic_corpus.passages(first, min(documents, first + _BATCH))
        resources.writing_store.upsert(namespace, [*passages])
    resources.generations.publish(namespace, resources.writing_store.generation(namespace))


def fill(resources: Resources, share: float) -> None:
    settings = resources.settings
    with closing(KeyStore(upgraded_database(settings, "keys", KeysUnavailable))) as keys:
        for number in range(round(KEYS * share)):
            keys.create(
                Grant(key_id="", tenant=f"tenant{number}", namespaces=None, scopes=frozenset({"search:run"}))
            )
    with closing(Jobs(upgraded_database(settings, "jobs", JobsUnavailable))) as jobs:
        for number in range(round(JOBS * share)):
            now_ms = time.time_ns() // 1_000_000
            new = new_job(Submission(namespace="ordinary", tenant=f"tenant{number % 50}"), settings, now_ms)
            jobs.create(new, now_ms=now_ms)
            jobs.add(new.job_id, {0: [Line(1, "a", {"questions": [{"text": "rent"}]})]}, now_ms=now_ms)
            jobs.begin(new.job_id, segments=1, now_ms=now_ms)
    for number in range(round(NAMESPACES * share)):
        write(resources, f"small{number}", 1)
    write(resources, "many", round(DOCUMENTS * share))


@contextmanager
def started(home: Path, layout: Layout) -> Iterator[tuple[Resources, float]]:
    begun_s = time.monotonic()
    with bench_installation(PIPELINE_FILE, layout, home=home) as installation:
        yield installation.resources, time.monotonic() - begun_s


def request_times_ms(client: Chorale, requests: int) -> list[float]:
    """The milliseconds of each request after those that warm the workers."""
    times_ms = []
    for text in synthetic_corpus.questions(WARMING + requests, ORDINARY, seed=next(_SEEDS)):
        begun_s = time.perf_counter()
        client.retrieve(text, namespace="ordinary", cache="bypass", timeout_s=10)
        times_ms.append(1_000 * (time.perf_counter() - begun_s))
    return times_ms[WARMING:]


def main(share: float = 1.0, rounds: float = 3, requests: float = 100) -> None:
    os.environ |= {"CHORALE_EMBEDDER_BACKEND": synthetic_corpus.BACKEND, "CHORALE_LAYOUT": "queues"}
    with (
        tempfile.TemporaryDirectory(prefix="chorale-few-") as few,
        tempfile.TemporaryDirectory(prefix="chorale-many-") as many,
    ):
        homes = {"few": Path(few), "many": Path(many)}
        # Without a worker for it the sweeper plans each request, some tenths of a second later.
        layout = {**layout_of(1), "retrieve": ("retrieve",)}
        for name, home in homes.items():
            with started(home, {}) as (resources, _):  # nobody asks yet
                write(resources, "ordinary", ORDINARY)
                if name == "many":
                    fill(resources, share)
        for _ in range(round(rounds)):
            for name, home in homes.items():
                with started(home, layout) as (resources, start_s):
                    cuts = quantiles(request_times_ms(Chorale(resources.redis_url), round(requests)), n=20)
                    p50, p95 = cuts[9], cuts[18]
                    print_line(f"{name}: started in {start_s:.1f} s, p50 {p50:.1f} ms, p95 {p95:.1f} ms")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
