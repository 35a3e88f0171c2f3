"""What each engine costs for one collection: `python -m docs.evidence.engines FOLDER [--split test] [--limit 300] [--pids STORE=PID ...]`.

Indexes a judged collection (BEIR layout) into the first store of the pipeline file, and moves it to each of the stores in turn, so
that all have the same passages and vectors.  For each store it says how fast it took them (with the comparison at the end), and nDCG@10 of the
branches `bm25` and `vector` and of the configurations `rrf` and `scores`.  Then all stores have the collection, and are searched in
turns.  `--pids` names processes whose time, with that of their children, is added to the client's.  The settings of `chorale` apply.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median

import psutil

from cli.commands.evaluate import index_collection
from cli.local.measured_pipeline import measured_pipeline
from cli.terminal import stderr
from config.settings import load_settings
from evaluation.judged.collection import read_collection
from evaluation.judged.run import evaluate, runs_of
from models.batching import in_batches
from search.protocol import Search
from tasks.indexing.moving import move_namespace
from tasks.indexing.namespace_writer import create_namespace
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources

DEPTH = 100
TURN = 20
"""The number of questions that one store answers before the next store has its turn."""
MEASURED = ("bm25", "vector", "rrf", "scores")


def spent_s(pid: int | None) -> float:
    """Processor seconds of this process, and of `pid` with its children."""
    total = time.process_time()
    if pid is not None:
        server = psutil.Process(pid)
        for process in (server, *server.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])
    return total


def search_in_turns(
    resources: Resources, names: Sequence[str], namespace: str, texts: Sequence[str], pids: Mapping[str, int]
) -> None:
    """Prints the median of the wall times of each store's searches, and the mean of their processor times."""
    vectors = resources.encoder.embedder.questions.embed_questions(texts)
    search = Search(DEPTH, timeout_s=60.0, generation=resources.writing_store.generation(namespace))

    def search_text(name: str, row: int) -> object:
        return resources.store(name).search_text(namespace, [texts[row]], search)

    def search_vectors(name: str, row: int) -> object:
        return resources.store(name).search_vectors(namespace, vectors[row : row + 1], search)

    searched = [
        (name, what, call)
        for name in names
        for what, call in (("words", search_text), ("vectors", search_vectors))
    ]
    walls_s = defaultdict[tuple[str, str], list[float]](list)
    busy_s = Counter[tuple[str, str]]()
    for name, _, call in searched:
        resources.store(name).warm(namespace)
        call(name, 0)
    for rows in in_batches(range(len(texts)), TURN):
        for name, what, call in searched:
            busy_began_s = spent_s(pids.get(name))
            for row in rows:
                began_s = time.perf_counter()
                call(name, row)
                walls_s[name, what].append(time.perf_counter() - began_s)
            busy_s[name, what] += spent_s(pids.get(name)) - busy_began_s
    for name, what, _ in searched:
        p50_ms, busy_ms = median(walls_s[name, what]) * 1000, busy_s[name, what] / len(texts) * 1000
        sys.stdout.write(f"{name}, {what}: p50 {p50_ms:.1f} ms, busy {busy_ms:.1f} ms\n")
    sys.stdout.write(f"load {os.getloadavg()[0]:.0f}\n")


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
    runs = [run for run in runs_of(pipeline) if run.name in MEASURED]
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
            judged = evaluate(collection, runs=runs, documents=documents, ask=running.client.ask)
            for run, figures in judged.figures.items():
                sys.stdout.write(f"  nDCG@10 {run}: {figures['ndcg@10']:.4f}\n")
            sys.stdout.write(f"  faults: {dict(judged.faults) or 'none'}\n")
            sys.stdout.flush()
        move_namespace(resources, namespace, [first, *others])
        search_in_turns(resources, [first, *others], namespace, texts, pids)


if __name__ == "__main__":
    main()
