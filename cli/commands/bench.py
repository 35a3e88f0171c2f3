"""`chorale bench latency`: the time of a request, side by side with what it is compared to."""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.local.child_process import Child
from cli.local.measured_pipeline import LastLines, NotReady
from cli.local.processes import READY_LIMIT_S, REDIS, SWEEPER, worker_environment
from cli.local.redis_server import prepare_redis
from cli.local.supervisor import Supervisor
from cli.monitoring.heartbeats import RedisHeartbeats
from config.blas_threads import limit_threads
from models.errors import ServiceError

if TYPE_CHECKING:
    from rich.console import Console

    from assembly.resources import Resources
    from bench.latency import Latency, Variant

NAMESPACE = "bench"
TIMEOUT_S = 30.0
"""Nothing ends early: what is measured is how long it takes."""
WATERFALL_REQUESTS = 50
_BRANCHES = {"bm25": "noop_a", "vector": "noop_b", "hyde": "noop_c"}
"""Each worker's branch, and the one without work that it has beside it."""
_OURS = tuple(f"{name}-1" for name in (*_BRANCHES, "fusion"))
_PLAIN = tuple(f"plain-{name}" for name in (*_BRANCHES, "fusion"))

bench = typer.Typer(
    help="Measure the speed of this machine's pipeline.", no_args_is_help=True, rich_markup_mode="markdown"
)


@bench.callback()
def _bench() -> None:
    pass  # with it a lone command keeps its name


@bench.command("latency")
def latency(
    questions: Annotated[int, typer.Option(min=3, help="How many for each number in flight.")] = 300,
    documents: Annotated[
        int | None, typer.Option(min=100, help="Take the first so many documents of the demo's corpus only.")
    ] = None,
    pipeline: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            resolve_path=True,
            help="A pipeline file with the branches of the usual one in other stores.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document and nothing else.")
    ] = False,
) -> None:
    """Measure the chord path beside one process without Celery, a plain Celery chord, and the cache.

    A temporary installation is started, the demo's corpus is indexed, and all variants answer the same
    questions in turns: one after another, then with 16 in flight. Nothing else should run on the machine.

    Examples:

        chorale bench latency

        chorale bench latency --questions 60 --documents 500 --json

        chorale bench latency --pipeline bench/latency_clustered.toml
    """
    # The process that is compared gets no more threads than a worker, and passes them on.
    limit_threads()
    from bench import no_op
    from cli.terminal import stderr

    console, lines = stderr(), LastLines()
    try:
        with tempfile.TemporaryDirectory(prefix="chorale-bench-") as home:
            found = _measure(
                Path(home), pipeline or no_op.PIPELINE_FILE, questions, documents, console, lines
            )
    except ServiceError:
        lines.show(sys.stderr)
        raise
    if as_json:
        print(json.dumps(found.to_wire()))
    else:
        _show(found)


@dataclass(frozen=True, slots=True)
class _Installation:
    resources: Resources
    supervisor: Supervisor

    def run_only(self, processes: Sequence[str]) -> None:
        for name in (*_OURS, SWEEPER, *_PLAIN):
            (self.supervisor.resume if name in processes else self.supervisor.pause)(name)


@contextmanager
def _installation(home: Path, pipeline_file: Path, lines: LastLines) -> Iterator[_Installation]:
    """Redis, our workers and those of the plain chord, in `home` alone; raises NotReady."""
    from assembly.pipeline import load_pipeline
    from assembly.resources import Resources
    from bench import no_op
    from config.settings import Settings

    # A setting that is empty counts as not set: the caller's own installation is left alone.
    os.environ.update(dict.fromkeys(("CHORALE_BROKER_URL", "CHORALE_AUDIT_URL", "CHORALE_DOCUMENTS_URL"), ""))
    os.environ["CHORALE_PIPELINE_FILE"] = str(pipeline_file)
    os.environ["CHORALE_LOG_LEVEL"] = "WARNING"
    redis_url, command = prepare_redis(home)
    environment = worker_environment(redis_url, home, os.environ)
    os.environ.update(environment)
    resources = Resources(Settings(), load_pipeline(pipeline_file, no_op.KINDS), redis_url)
    supervisor = Supervisor(
        [Child(REDIS, command, level=0), *_workers(environment)],
        output=lines,
        heartbeats=RedisHeartbeats(redis_url, server=REDIS),
    )
    with supervisor:
        if missing := supervisor.wait_ready(READY_LIMIT_S):
            raise NotReady(f"not ready within {READY_LIMIT_S:.0f} s: {', '.join(missing)}")
        try:
            yield _Installation(resources, supervisor)
        finally:
            # Celery's results unsubscribe when they are collected: after the server has gone each tries for seconds.
            gc.collect()


def _workers(environment: Mapping[str, str]) -> list[Child]:
    def child(name: str, module: str, *arguments: str, beats: bool = True) -> Child:
        return Child(name, (sys.executable, "-m", module, *arguments), environment, beats=beats)

    queues = {f"{name}-1": (f"chorale.{name}", f"chorale.{idle}") for name, idle in _BRANCHES.items()}
    plain = {f"plain-{name}": (name, idle) for name, idle in _BRANCHES.items()}
    return [
        *(child(name, "bench.worker", name, *served) for name, served in queues.items()),
        child("fusion-1", "bench.worker", "fusion-1", "chorale.fusion"),
        child(SWEEPER, "bench.worker", SWEEPER),
        *(child(name, "bench.plain_chord", *served, beats=False) for name, served in plain.items()),
        child("plain-fusion", "bench.plain_chord", "fusion", beats=False),
    ]


def _measure(
    home: Path,
    pipeline_file: Path,
    questions: int,
    documents: int | None,
    console: Console,
    lines: LastLines,
) -> Latency:
    from bench.corpus_questions import questions_about
    from bench.latency import COUNTED_REQUESTS, IN_FLIGHT, Latency, compare, cpu_of, redis_cost, waterfall_of
    from bench.timing import WARMING
    from cli.demo.python_docs import SOURCE, python_docs
    from cli.views.indexing_bar import note
    from tasks.indexing.namespace_writer import index_corpus
    from tasks.indexing.run import SourceDocuments

    corpus = list(islice(python_docs(), documents))
    counted = min(COUNTED_REQUESTS, questions)
    shown = min(WATERFALL_REQUESTS, questions)
    # No question comes twice, or a worker would know its vector.
    texts = iter(questions_about(corpus, len(IN_FLIGHT) * questions + 2 * counted + shown))
    asked = {in_flight: list(islice(texts, questions)) for in_flight in IN_FLIGHT}
    with console.status("starting") as status, _installation(home, pipeline_file, lines) as found:
        index_corpus(
            found.resources,
            SourceDocuments(corpus, SOURCE, total=len(corpus)),
            namespace=NAMESPACE,
            progress=lambda so_far: status.update(
                f"indexing {so_far.documents:,} of {len(corpus):,} documents, {note(so_far)}"
            ),
        )
        real = _variants(found.resources, {"namespace": NAMESPACE})
        no_op = _variants(
            found.resources, {"namespace": NAMESPACE, "configuration": "noop", "include": ["ids"]}
        )
        # The plain chord's workers have no heartbeat: the first answers show that all are there.
        for variant in (*real, *no_op):
            variant.ask(WARMING)
        empty = [variant for variant in no_op if variant.name != "cache"]
        runs = compare(real, asked, run_only=found.run_only, progress=status.update)
        no_op_runs = compare(
            empty,
            asked,
            run_only=found.run_only,
            progress=lambda what: status.update(f"no-op branches: {what}"),
        )
        cpu, spent_on = {}, list(islice(texts, counted))
        named = [(variant.name, variant) for variant in real]
        named += [(f"{variant.name}, no-op", variant) for variant in empty]
        for name, variant in named:
            found.run_only(variant.processes)
            status.update(f"processor time: {name}")
            running = (*variant.processes, REDIS)
            pids = {process: pid for process, pid in found.supervisor.pids().items() if process in running}
            cpu[name] = cpu_of(variant, spent_on, pids)
        chord = real[0]
        found.run_only(chord.processes)
        status.update("commands and bytes")
        cost = redis_cost(found.resources.redis, chord.ask, list(islice(texts, counted)))
        waterfall = waterfall_of([chord.ask(text) for text in texts])
        # Servers outlive the installation.
        found.resources.writing_store.drop(NAMESPACE)
        return Latency(runs, no_op_runs, cost, cpu, waterfall)


def _variants(resources: Resources, options: Mapping[str, Any]) -> list[Variant]:
    from chorale_client.client import make_request

    from bench import one_process, plain_chord
    from bench.chord_path import ChordPath
    from bench.latency import Variant
    from tasks.registration import make_app

    app, plain_app = make_app(resources), plain_chord.make_app(resources)
    options = {**options, "timeout_s": TIMEOUT_S}
    cached = ChordPath(app, resources, options)
    options = {**options, "cache": "bypass"}
    chord = ChordPath(app, resources, options)
    ours = (*_OURS, SWEEPER)

    def ask_again(text: str) -> None:
        # A text of its own, so that no worker knows its vector when another variant asks.
        cached.ask(f"{text}?")

    return [
        Variant("chord", chord.ask, ours),
        Variant("in_process", lambda text: one_process.answer(resources, make_request(text, **options))),
        Variant(
            "plain_chord",
            lambda text: plain_chord.answer(plain_app, resources, make_request(text, **options)),
            _PLAIN,
        ),
        Variant("cache", ask_again, ours, prepare=ask_again),
    ]


def _show(found: Latency) -> None:
    from cli.terminal import plain_table, stdout

    console = stdout()
    figures = ("p50 ms", "p95 ms", "p99 ms", "requests/s")
    for title, runs in (("real branches", found.runs), ("branches without work", found.no_op_runs)):
        table = plain_table(title, "in flight", *figures, right=("in flight", *figures))
        for run in runs:
            table.add_row(*map(str, run.values()))
        console.print(table)
        console.print()
    table = plain_table(
        "where the time goes (medians)", "begins at ms", "takes ms", right=("begins at ms", "takes ms")
    )
    for line in found.waterfall:
        begins = "" if line["start_ms"] is None else f"{line['start_ms']:.2f}"
        table.add_row(line["stage"], begins, f"{line['ms']:.2f}")
    console.print(table)
    console.print("\nprocessor time of one request, ms")
    for name, spent in found.cpu_ms.items():
        parts = ", ".join(f"{process} {ms:.1f}" for process, ms in spent.items() if ms >= 0.05)
        console.print(f"  {name}: {sum(spent.values()):.1f} ({parts})")
    verbs = ", ".join(f"{verb} {count:.2f}" for verb, count in found.cost.commands_by_verb.items())
    console.print(f"\nRedis, a request: {found.cost.commands:.1f} commands ({verbs}),")
    console.print(f"{found.cost.bytes_left:,.0f} bytes left until the answer expires")
