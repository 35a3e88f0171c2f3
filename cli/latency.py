"""`chorale bench latency`: the time of a request, side by side with what it is compared to."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.child_process import Child
from cli.heartbeats import RedisHeartbeats
from cli.installation import LastLines, NotReady
from cli.redis_server import prepare_redis
from cli.supervisor import Supervisor
from cli.up import READY_LIMIT_S, REDIS, SWEEPER, worker_environment
from models.errors import ServiceError

if TYPE_CHECKING:
    from rich.console import Console

    from bench.latency import Latency, Variant
    from tasks.resources import Resources

NAMESPACE = "bench"
TIMEOUT_S = 30.0
"""Nothing ends early: what is measured is how long it takes."""
WATERFALL_REQUESTS = 50
_BRANCHES = {"bm25": "noop_a", "vector": "noop_b", "hyde": "noop_c"}
"""Each worker's branch, and the one without work that it has beside it."""
_OURS = tuple(f"{name}-1" for name in (*_BRANCHES, "fusion"))
_PLAIN = tuple(f"plain-{name}" for name in (*_BRANCHES, "fusion"))


def latency(
    questions: Annotated[int, typer.Option(min=3, help="How many for each number in flight.")] = 300,
    documents: Annotated[
        int | None, typer.Option(min=100, help="Take the first so many documents of the demo's corpus only.")
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
    """
    from rich.console import Console

    from bench import no_op
    from tasks.worker import limit_threads

    # Before numpy is loaded: the process that is compared gets no more threads than a worker.
    limit_threads(1)
    no_op.declare()
    console, lines = Console(stderr=True), LastLines()
    try:
        with tempfile.TemporaryDirectory(prefix="chorale-bench-") as home:
            found = _measure(Path(home), questions, documents, console, lines)
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
def _installation(home: Path, lines: LastLines) -> Iterator[_Installation]:
    """Redis, and nothing else yet; workers start with `_start_workers`."""
    from bench import no_op
    from config.pipeline import load_pipeline
    from config.settings import Settings
    from tasks.resources import Resources

    # A setting that is empty counts as not set: the caller's own installation is left alone.
    os.environ.update(dict.fromkeys(("CHORALE_BROKER_URL", "CHORALE_AUDIT_URL"), ""))
    os.environ["CHORALE_PIPELINE_FILE"] = str(no_op.PIPELINE_FILE)
    os.environ["CHORALE_LOG_LEVEL"] = "WARNING"
    redis_url, command = prepare_redis(home)
    environment = worker_environment(redis_url, home, os.environ)
    os.environ.update(environment)
    resources = Resources(Settings(), load_pipeline(no_op.PIPELINE_FILE), redis_url)
    supervisor = Supervisor(
        [Child(REDIS, command, level=0), *_workers(environment)],
        output=lines,
        heartbeats=RedisHeartbeats(redis_url, server=REDIS),
    )
    with supervisor:
        if missing := supervisor.wait_ready(READY_LIMIT_S):
            raise NotReady(f"not ready within {READY_LIMIT_S:.0f} s: {', '.join(missing)}")
        yield _Installation(resources, supervisor)


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
    home: Path, questions: int, documents: int | None, console: Console, lines: LastLines
) -> Latency:
    from bench.latency import COUNTED_REQUESTS, IN_FLIGHT, Latency, compare, redis_cost, waterfall_of
    from bench.questions import questions_about
    from ingest.python_docs import python_docs

    corpus = list(islice(python_docs(), documents))
    counted = min(COUNTED_REQUESTS, questions)
    shown = min(WATERFALL_REQUESTS, questions)
    texts = questions_about(corpus, len(IN_FLIGHT) * questions + counted + shown)
    asked = {n: texts[i * questions : (i + 1) * questions] for i, n in enumerate(IN_FLIGHT)}
    rest = texts[len(IN_FLIGHT) * questions :]
    with console.status("starting") as status, _installation(home, lines) as found:
        _index(corpus, found.resources, status.update)
        real = _variants(found.resources, {"namespace": NAMESPACE})
        no_op = _variants(
            found.resources, {"namespace": NAMESPACE, "configuration": "noop", "include": ["ids"]}
        )
        plain = next(variant for variant in real if variant.name == "plain_chord")
        plain.ask("its workers have no heartbeat: this waits for them")
        runs = compare(real, asked, run_only=found.run_only, progress=status.update)
        no_op_runs = compare(
            [variant for variant in no_op if variant.name != "cache"],
            asked,
            run_only=found.run_only,
            progress=lambda what: status.update(f"no-op branches: {what}"),
        )
        chord = next(variant for variant in real if variant.name == "chord")
        found.run_only(chord.processes)
        status.update("commands and bytes")
        cost = redis_cost(found.resources.redis, chord.ask, rest[:counted])
        return Latency(runs, no_op_runs, cost, waterfall_of([chord.ask(text) for text in rest[counted:]]))


def _index(corpus: Sequence[Any], resources: Resources, say: Any) -> None:
    from bench.corpus import index_corpus
    from ingest.python_docs import SOURCE

    report = index_corpus(
        corpus,
        resources=resources,
        namespace=NAMESPACE,
        source=SOURCE,
        progress=lambda so_far: say(
            f"indexing {len(corpus):,} documents: {so_far.documents:,} read, "
            f"{so_far.passages_per_s:.0f} passages a second"
        ),
    )
    resources.publish_generation(NAMESPACE, report.generation)


def _variants(resources: Resources, options: Mapping[str, Any]) -> list[Variant]:
    from chorale_client.client import make_request

    from bench import one_process, plain_chord
    from bench.chord_path import ChordPath
    from bench.latency import Variant
    from tasks.app import make_app

    app, plain_app = make_app(resources), plain_chord.make_app(resources)
    chord = ChordPath(app, resources, {**options, "timeout_s": TIMEOUT_S, "cache": "bypass"})
    cached = ChordPath(app, resources, {**options, "timeout_s": TIMEOUT_S})
    request = partial(make_request, timeout_s=TIMEOUT_S, cache="bypass", **options)
    ours = (*_OURS, SWEEPER)

    def ask_again(text: str) -> None:
        # A text of its own, so that no worker knows its vector when another variant asks.
        cached.ask(f"{text}?")

    return [
        Variant("chord", chord.ask, ours),
        Variant("in_process", lambda text: one_process.answer(resources, request(text))),
        Variant("plain_chord", lambda text: plain_chord.answer(plain_app, resources, request(text)), _PLAIN),
        Variant("cache", ask_again, ours, prepare=ask_again),
    ]


def _show(found: Latency) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for title, runs in (("real branches", found.runs), ("branches without work", found.no_op_runs)):
        table = Table("", "in flight", title=title)
        for column in ("p50 ms", "p95 ms", "p99 ms", "requests/s"):
            table.add_column(column, justify="right")
        for run in runs:
            name, in_flight, *figures = run.values()
            table.add_row(name, str(in_flight), *map(str, figures))
        console.print(table)
    table = Table("stage", title="where the time of one request goes (chord, medians)")
    table.add_column("begins at ms", justify="right")
    table.add_column("takes ms", justify="right")
    for line in found.waterfall:
        table.add_row(
            line["stage"], "" if line["start_ms"] is None else str(line["start_ms"]), str(line["ms"])
        )
    console.print(table)
    verbs = ", ".join(f"{verb} {count:.2f}" for verb, count in found.cost.commands_by_verb.items())
    console.print(f"Redis, for one request: {found.cost.commands:.1f} commands ({verbs}),")
    console.print(f"{found.cost.bytes_left:,.0f} bytes left {'until the answer expires'}")
