"""`chorale bench latency`: the time of a request, side by side with what it is compared to."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import AsJson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.latency import Latency
    from cli.local.bench_installation import BenchInstallation
    from cli.local.child_process import Output

NAMESPACE = "bench"
WATERFALL_REQUESTS = 50
ATTEMPTS_TO_WARM = 4
"""Maximum warm-up requests; each takes up to `bench.variants.TIMEOUT_S`."""

bench = typer.Typer(
    help="Measure the speed of this machine's pipeline.", no_args_is_help=True, rich_markup_mode="markdown"
)


@bench.callback()
def _bench() -> None:
    # With a callback Typer keeps the name of a lone command.
    pass


@bench.command("latency")
def latency(
    questions: Annotated[int, typer.Option(min=3, help="Questions for each number in flight.")] = 300,
    documents: Annotated[
        int | None, typer.Option(min=100, help="Index only this many documents of the demo's corpus.")
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
    as_json: AsJson = False,
) -> None:
    """Measure the chord path beside one process without Celery, a plain Celery chord, and the cache.

    A temporary installation is started, the demo's corpus is indexed, and all variants answer the same
    questions in turns: one after another, then with 16 in flight. A request that never ends is counted as hung.
    Nothing else should run on the machine.

    Examples:

        chorale bench latency

        chorale bench latency --questions 60 --documents 500 --json

        chorale bench latency --pipeline bench/latency_clustered.toml
    """
    from config.blas_threads import limit_threads

    # This process is one of the variants: it gets as many threads as a worker.
    limit_threads()
    from bench.no_op import PIPELINE_FILE
    from cli.local.measured_pipeline import LastLines
    from cli.terminal import print_json, stdout
    from cli.views.latency import show_latency

    with LastLines() as lines, tempfile.TemporaryDirectory(prefix="chorale-bench-") as home:
        found = _measure(Path(home), pipeline or PIPELINE_FILE, questions, documents, lines)
    if as_json:
        print_json(found.to_wire())
    else:
        show_latency(stdout(), found)


def _measure(
    home: Path, pipeline_file: Path, questions: int, documents: int | None, output: Output
) -> Latency:
    from bench.corpus_questions import questions_about
    from bench.latency import COUNTED_REQUESTS, IN_FLIGHT
    from cli.demo.python_docs import SOURCE, python_docs
    from cli.local.bench_installation import bench_installation
    from cli.terminal import stderr
    from cli.views.indexing_bar import note
    from tasks.indexing.indexing_run import SourceDocuments
    from tasks.indexing.namespace_writer import index_corpus

    corpus = list(islice(python_docs(), documents))
    counted, shown = min(COUNTED_REQUESTS, questions), min(WATERFALL_REQUESTS, questions)
    # No question comes twice: a worker would know its vector.
    texts = iter(questions_about(corpus, len(IN_FLIGHT) * questions + 2 * counted + shown))
    with stderr().status("starting") as status, bench_installation(home, pipeline_file, output) as found:
        index_corpus(
            found.resources,
            SourceDocuments(corpus, SOURCE, total=len(corpus)),
            namespace=NAMESPACE,
            progress=lambda so_far: status.update(
                f"indexing {so_far.documents:,} of {len(corpus):,} documents, {note(so_far)}"
            ),
        )
        try:
            return _compare(found, texts, questions, counted, progress=status.update)
        finally:
            # Elasticsearch and Weaviate outlive the installation.
            found.resources.writing_store.drop(NAMESPACE)


def _compare(
    found: BenchInstallation,
    texts: Iterator[str],
    questions: int,
    counted: int,
    *,
    progress: Callable[[str], None],
) -> Latency:
    """Takes `questions` of the texts for each number in flight, `counted` for each cost, the rest for the waterfall."""
    from bench.latency import IN_FLIGHT, Latency, compare, cpu_of, redis_cost, waterfall_of
    from bench.timing import WARMING, ask_all
    from bench.variants import make_variants

    real = make_variants(found.resources, {"namespace": NAMESPACE})
    options = {"namespace": NAMESPACE, "configuration": "noop", "include": ["ids"]}
    empty = [one for one in make_variants(found.resources, options) if one.name != "cache"]
    for variant in (*real, *empty):
        # The plain chord's workers have no heartbeat: the first answer shows that all of them run.
        for _ in range(ATTEMPTS_TO_WARM):
            if ask_all(variant.ask, [WARMING]):
                break
    asked = {in_flight: list(islice(texts, questions)) for in_flight in IN_FLIGHT}
    runs = compare(real, asked, run_only=found.run_only, progress=progress)
    no_op_runs = compare(
        empty, asked, run_only=found.run_only, progress=lambda what: progress(f"no-op branches: {what}")
    )
    cpu, asked_for_cpu = {}, list(islice(texts, counted))
    named = {one.name: one for one in real} | {f"{one.name}, no-op": one for one in empty}
    for name, variant in named.items():
        found.run_only(variant.processes)
        progress(f"processor time: {name}")
        cpu[name] = cpu_of(variant, asked_for_cpu, found.pids(variant.processes))
    chord = real[0]
    found.run_only(chord.processes)
    progress("commands and bytes")
    cost = redis_cost(found.resources.redis, chord.ask, list(islice(texts, counted)))
    return Latency(runs, no_op_runs, cost, cpu, waterfall_of([chord.ask(text) for text in texts]))
