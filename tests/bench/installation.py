"""The temporary installation that is measured: its Redis, our workers, and those of a plain chord; and its questions."""

from __future__ import annotations

import gc
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from cli.local.child_process import Child
from cli.local.measured_pipeline import LastLines
from cli.local.ports import Address
from cli.local.processes import REDIS, running, worker_children
from cli.local.supervisor import Supervisor
from cli.terminal import stderr
from config.settings import load_settings
from ingest.raw_documents import RawDocument
from models.errors import ServiceError
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.bench.no_op import KINDS, PIPELINE_FILE
from tests.bench.python_docs import SOURCE, python_docs
from tests.bench.timing import ROUNDS
from tests.bench.variants import BESIDE_WORKERS, IDLE_BESIDE, PLAIN_WORKERS, ROLES, Layout

WORDS = 9
"""About as many as people type, and enough for the texts to differ."""
MOST_OF_A_DOCUMENT = 8
_WORD = re.compile(r"[^\W_]+")


def questions_about(documents: Iterable[RawDocument], count: int) -> list[str]:
    """`count` questions, spread over the corpus and always the same for it; raises ServiceError
    if there are too few."""
    texts: set[str] = set()
    for document in documents:
        words = _WORD.findall(document.text)[: WORDS * MOST_OF_A_DOCUMENT]
        texts |= {" ".join(words[at : at + WORDS]) for at in range(0, len(words) - WORDS + 1, WORDS)}
    shuffled = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())
    if len(shuffled) < count:
        raise ServiceError(
            f"{count} distinct questions wanted, but the corpus has {len(shuffled)}: "
            "measure with fewer, or with more documents"
        )
    return shuffled[:count]


NAMESPACE = "bench"


@dataclass(frozen=True, slots=True)
class BenchInstallation:
    resources: Resources
    supervisor: Supervisor
    layout: Layout

    def run_only(self, processes: Sequence[str]) -> dict[str, int]:
        """Hold every other worker still; returns the process ids of these and of Redis, by name."""
        pids, running = self.supervisor.pids(), (*processes, REDIS)
        for name in pids:
            (self.supervisor.resume if name in running else self.supervisor.pause)(name)
        return {name: pid for name, pid in pids.items() if name in running}


def chosen_layout(pipeline_file: Path) -> Layout:
    """The layout that `chorale up` would choose, for the branches and the fusion; CHORALE_LAYOUT then names it."""
    children = worker_children(load_settings(), load_pipeline(pipeline_file, KINDS), {})
    os.environ["CHORALE_LAYOUT"] = children[0].env["CHORALE_LAYOUT"]
    served = {
        child.name: tuple(role for role in ROLES if f"chorale.{role}" in child.argv) for child in children
    }
    return {name: roles for name, roles in served.items() if roles}


@contextmanager
def bench_installation(
    pipeline_file: Path, layout: Layout, *, home: Path, plain: bool = False, http: Address | None = None
) -> Iterator[BenchInstallation]:
    """Start everything in `home`, with or without the workers of a plain chord and the HTTP API, and stop it with the block."""
    # An empty setting counts as not set: the caller's own installation is left alone.
    os.environ.update(
        dict.fromkeys(
            ("CHORALE_BROKER_URL", "CHORALE_CELLS", "CHORALE_AUDIT_URL", "CHORALE_DOCUMENTS_URL"), ""
        )
    )
    os.environ |= {"CHORALE_HOME": str(home), "CHORALE_REDIS_URL": "", "CHORALE_LOG_LEVEL": "WARNING"}
    os.environ["CHORALE_PIPELINE_FILE"] = str(pipeline_file)
    settings, pipeline = load_settings(), load_pipeline(pipeline_file, KINDS)
    workers = partial(_workers, layout, plain)
    with LastLines() as lines, running(settings, pipeline, lines, http=http, workers=workers) as started:
        started.supervisor.require_ready()
        # For the resources that a thread of this process opens from the environment.
        os.environ["CHORALE_REDIS_URL"] = started.redis_url
        try:
            resources = Resources(settings, pipeline, started.redis_url)
            yield BenchInstallation(resources, started.supervisor, layout)
        finally:
            # Celery's results unsubscribe when they are collected, and without a server each tries for seconds.
            gc.collect()


def _workers(layout: Layout, plain: bool, environment: Mapping[str, str]) -> list[Child]:
    def child(name: str, module: str, *arguments: str, beats: bool = True) -> Child:
        return Child(name, (sys.executable, "-m", module, *arguments), environment, beats=beats)

    def served(roles: Sequence[str]) -> list[str]:
        return [queue for role in roles for queue in (role, IDLE_BESIDE.get(role)) if queue]

    ours = [
        child(name, "tests.bench.worker", name, *(f"chorale.{queue}" for queue in served(roles)))
        for name, roles in layout.items()
    ]
    theirs = [
        child(name, "tests.bench.plain_chord", *served([name.removeprefix("plain-")]), beats=False)
        for name in PLAIN_WORKERS
        if plain
    ]
    beside = [child(name, "tests.bench.worker", name) for name in BESIDE_WORKERS]
    return [*ours, *beside, *theirs]


@dataclass(frozen=True)
class Measured:
    """A started installation that has the documentation of Python."""

    installation: BenchInstallation
    corpus: Sequence[RawDocument]
    progress: Callable[[str], None]

    @property
    def resources(self) -> Resources:
        return self.installation.resources

    @property
    def layout(self) -> Layout:
        return self.installation.layout

    def questions(
        self, count: int, in_flight: Sequence[int], *, more: int = 0
    ) -> tuple[dict[int, list[str]], list[str]]:
        """Questions for each number in flight, and `more` others.  None comes twice: a worker would know its vector."""
        # Each thread has two questions in each round.
        counts = {number: max(count, 2 * ROUNDS * number) for number in sorted(set(in_flight))}
        texts = iter(questions_about(self.corpus, sum(counts.values()) + more))
        return {number: list(islice(texts, length)) for number, length in counts.items()}, list(texts)


@contextmanager
def measured_installation(
    documents: int | None,
    pipeline: Path | None = None,
    *,
    others: Mapping[str, Sequence[str]] | None = None,
    http: Address | None = None,
    plain: bool = False,
) -> Iterator[Measured]:
    """Start an installation with these `others` besides the workers that answer, and index the corpus."""
    file, corpus = pipeline or PIPELINE_FILE, list(islice(python_docs(), documents))
    layout = {**chosen_layout(file), **(others or {})}
    with (
        tempfile.TemporaryDirectory(prefix="chorale-bench-") as home,
        stderr().status("starting") as status,
        bench_installation(file, layout, home=Path(home), plain=plain, http=http) as installation,
    ):
        index_corpus(
            installation.resources,
            SourceDocuments(corpus, SOURCE, total=len(corpus)),
            namespace=NAMESPACE,
            progress=lambda so_far: status.update(
                f"indexing {so_far.documents:,} of {len(corpus):,} documents"
            ),
        )
        try:
            yield Measured(installation, corpus, status.update)
        finally:
            # Elasticsearch and Weaviate outlive the installation.
            installation.resources.writing_store.drop(NAMESPACE)
