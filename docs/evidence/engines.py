"""What each engine costs for one collection: `python -m docs.evidence.engines FOLDER [--split test] [--limit 300] [--pids STORE=PID ...]`.

Indexes a judged collection (BEIR layout) into the first store of the pipeline file, and moves it to each of the stores in turn, so
that all have the same passages and vectors.  For each store it says how fast it took them (with the comparison at the end), how long a
search takes, and nDCG@10 of the configurations `rrf` and `scores`.  `--pids` names processes whose time, with that of their children,
is added to the client's.  The settings of `chorale` apply.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median

import psutil

from cli.commands.evaluate import index_collection
from cli.local.measured_pipeline import measured_pipeline
from cli.terminal import stderr
from config.settings import load_settings
from evaluation.collection import read_collection
from evaluation.run import evaluate, runs_of
from search.protocol import Search
from tasks.indexing.moving import move_namespace
from tasks.indexing.namespace_writer import create_namespace
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources

DEPTH = 100


def spent_s(pid: int | None) -> float:
    """Processor seconds of this process, and of `pid` with its children."""
    total = time.process_time()
    if pid is not None:
        server = psutil.Process(pid)
        for process in (server, *server.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])
    return total


@contextmanager
def measured(what: str, count: int, pid: int | None) -> Iterator[list[float]]:
    """Prints the median of the wall times that the block appends, and the processor time divided by `count`."""
    walls_s: list[float] = []
    began_s = spent_s(pid)
    yield walls_s
    busy_ms = (spent_s(pid) - began_s) * 1000 / count
    sys.stdout.write(f"  {what}: p50 {median(walls_s) * 1000:.1f} ms, busy {busy_ms:.1f} ms\n")


def timed(call: Callable[[], object], walls_s: list[float]) -> None:
    began_s = time.perf_counter()
    call()
    walls_s.append(time.perf_counter() - began_s)


def searches(resources: Resources, name: str, namespace: str, texts: list[str], pid: int | None) -> None:
    store = resources.store(name)
    vectors = resources.encoder.embedder.questions.embed_questions(texts)
    search = Search(DEPTH, timeout_s=60.0)
    store.warm(namespace)
    store.search_vectors(namespace, vectors[:1], search)
    search = replace(search, generation=store.generation(namespace))
    with measured("words", len(texts), pid) as walls_s:
        for text in texts:
            timed(lambda text=text: store.search_text(namespace, [text], search), walls_s)  # type: ignore[misc]
    with measured("vectors", len(texts), pid) as walls_s:
        for row in range(len(texts)):
            timed(lambda row=row: store.search_vectors(namespace, vectors[row : row + 1], search), walls_s)  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--pids", nargs="*", default=[])
    given = parser.parse_args()
    pids = {name: int(pid) for name, _, pid in (pair.partition("=") for pair in given.pids)}
    collection = read_collection(given.folder, given.split)
    questions = dict(islice(collection.questions.items(), given.limit))
    judgements = {id_: collection.judgements[id_] for id_ in questions}
    collection = replace(collection, questions=questions, judgements=judgements)
    namespace, texts = collection.namespace, list(collection.questions.values())
    settings = load_settings()
    pipeline = load_pipeline(settings.pipeline_file)
    runs = [run for run in runs_of(pipeline) if run.name in ("rrf", "scores")]
    with measured_pipeline(settings, pipeline) as running:
        resources = running.resources
        first, *others = resources.written_stores
        create_namespace(resources, namespace)
        move_namespace(resources, namespace, [first])
        documents = index_collection(collection, resources, stderr())
        # The first store comes last, so that it is measured like the others.
        for name in (*others, first):
            pid = pids.get(name)
            began_s, busy_s = time.monotonic(), spent_s(pid)
            move_namespace(resources, namespace, [name])
            wall_s, busy_s = time.monotonic() - began_s, spent_s(pid) - busy_s
            sys.stdout.write(
                f"{name}: {documents} documents in {wall_s:.1f} s, {documents / wall_s:.0f}/s; busy {busy_s:.1f} s; "
                f"load {os.getloadavg()[0]:.0f}\n"
            )
            searches(resources, name, namespace, texts, pid)
            judged = evaluate(collection, runs=runs, documents=documents, ask=running.client.ask)
            for run, figures in judged.figures.items():
                sys.stdout.write(f"  nDCG@10 {run}: {figures['ndcg@10']:.4f}\n")
            sys.stdout.write(f"  faults: {dict(judged.faults) or 'none'}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
