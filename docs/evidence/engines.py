"""What each engine costs for one collection: `python -m docs.evidence.engines FOLDER [--split test] [--limit N] [--pids STORE=PID ...]`.

Indexes a judged collection (BEIR layout) into the first store of the pipeline file, and moves it to one store more at a time, so
that all have the same passages and vectors.  Says how long each took to write them (with the comparison of all at the end).  Then the
stores are searched in turns; for words and for vectors it says how long a search took, and nDCG@10.  `--pids` names processes
whose processor time, with that of their children, is added to the client's, and whose memory is printed.  The settings of `chorale` apply.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

import psutil

from cli.commands.evaluate import index_collection
from cli.terminal import stderr
from config.settings import load_settings
from evaluation.judged.collection import Collection, read_collection
from evaluation.judged.metrics import measure
from models.batching import in_batches
from models.hits import Ranking
from search.protocol import Search
from tasks.indexing.moving import move_namespace
from tasks.indexing.namespace_writer import create_namespace
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources

DEPTH = 100
TURN = 20
"""The number of questions that one store answers before the next store has its turn."""

Branch = tuple[str, str]
"""A store, and `words` or `vectors`."""
Answer = Callable[[int], list[Ranking]]


def processes(pid: int | None) -> list[psutil.Process]:
    """The process and its children."""
    if pid is None:
        return []
    server = psutil.Process(pid)
    return [server, *server.children(recursive=True)]


def spent_s(pid: int | None) -> float:
    """Processor seconds of this process, and of `pid` with its children."""
    total = time.process_time()
    for process in processes(pid):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def say(line: str) -> None:
    sys.stdout.write(f"{line}; load {os.getloadavg()[0]:.0f}\n")
    sys.stdout.flush()


def searches(resources: Resources, names: Sequence[str], collection: Collection) -> dict[Branch, Answer]:
    """What each store answers to the words and to the vector of a question, by the question's place."""
    namespace, texts = collection.namespace, list(collection.questions.values())
    vectors = resources.encoder.embedder.questions.embed_questions(texts)
    search = Search(DEPTH, timeout_s=60.0, generation=resources.writing_store.generation(namespace))

    def of(name: str) -> dict[Branch, Answer]:
        store = resources.store(name)
        store.warm(namespace)
        return {
            (name, "words"): lambda row: store.search_text(namespace, [texts[row]], search),
            (name, "vectors"): lambda row: store.search_vectors(namespace, vectors[row : row + 1], search),
        }

    return {what: answer for name in names for what, answer in of(name).items()}


def search_in_turns(answers: dict[Branch, Answer], collection: Collection, pids: dict[str, int]) -> None:
    """Prints the median of the wall times of each store's searches, the mean of their processor times, and nDCG@10."""
    ids = list(collection.questions)
    walls_s = defaultdict[Branch, list[float]](list)
    busy_s = defaultdict[Branch, float](float)
    rankings = defaultdict[Branch, dict[str, list[str]]](dict)
    for answer in answers.values():
        answer(0)
    for rows in in_batches(range(len(ids)), TURN):
        for branch, answer in answers.items():
            busy_began_s = spent_s(pids.get(branch[0]))
            for row in rows:
                began_s = time.perf_counter()
                [ranking] = answer(row)
                walls_s[branch].append(time.perf_counter() - began_s)
                rankings[branch][ids[row]] = list(dict.fromkeys(hit.document_id for hit in ranking.hits))
            busy_s[branch] += spent_s(pids.get(branch[0])) - busy_began_s
    for branch in answers:
        p50_ms, busy_ms = median(walls_s[branch]) * 1000, busy_s[branch] / len(ids) * 1000
        ndcg = measure(collection.judgements, rankings[branch])["ndcg@10"]
        say(f"{', '.join(branch)}: p50 {p50_ms:.1f} ms, busy {busy_ms:.1f} ms, nDCG@10 {ndcg:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--pids", nargs="*", default=[])
    options = parser.parse_args()
    pids = {name: int(pid) for name, _, pid in (pair.partition("=") for pair in options.pids)}
    collection = read_collection(options.folder, options.split).limited(options.limit)
    settings = load_settings()
    resources = Resources(
        settings, load_pipeline(settings.pipeline_file), settings.redis_url or "redis://127.0.0.1:6379/0"
    )
    first, *others = resources.written_stores
    create_namespace(resources, collection.namespace)
    move_namespace(resources, collection.namespace, [first])
    documents = index_collection(collection, resources, stderr())
    # The first store comes last, so that it is measured like the others.
    names = [*others, first]
    for number, name in enumerate(names, 1):
        pid = pids.get(name)
        began_s, busy_s = time.monotonic(), spent_s(pid)
        move_namespace(resources, collection.namespace, names[:number])
        wall_s, busy_s = time.monotonic() - began_s, spent_s(pid) - busy_s
        say(
            f"{name}: {documents} documents in {wall_s:.1f} s, {documents / wall_s:.0f}/s; busy {busy_s:.1f} s"
        )
    search_in_turns(searches(resources, names, collection), collection, pids)
    for name, pid in pids.items():
        memory = sum(process.memory_full_info().pss for process in processes(pid))
        say(f"{name}: {memory / 1e6:.0f} MB (proportional set size)")


if __name__ == "__main__":
    main()
