"""`chorale bench latency` and `chorale bench growth`: the time and the cost of a request, side by side with others."""

from __future__ import annotations

import os
import tempfile
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import AsJson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.latency import Latency
    from bench.variants import Layout
    from cli.local.bench_installation import BenchInstallation
    from cli.local.child_process import Output

NAMESPACE = "bench"
IN_FLIGHT = [1, 16, 64]
SIZES = [5_000, 20_000, 50_000, 100_000, 200_000]
PROCESSES = [1, 2, 4]
GROWTH_IN_FLIGHT = [1, 4, 16, 64]
WATERFALL_REQUESTS = 50
ATTEMPTS_TO_WARM = 4
"""Maximum warm-up requests; each takes up to `bench.variants.TIMEOUT_S`."""

bench = typer.Typer(
    help="Measure the speed of this machine's pipeline.", no_args_is_help=True, rich_markup_mode="markdown"
)


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
    in_flight: Annotated[
        list[int], typer.Option(min=1, help="Numbers in flight; the option may come several times.")
    ] = IN_FLIGHT,
    as_json: AsJson = False,
) -> None:
    """Measure the chord path beside one process without Celery, a plain Celery chord, and the cache.

    A temporary installation is started, the demo's corpus is indexed, and all variants answer the same
    questions in turns: one after another, then with 16 and 64 in flight. A request that never ends is counted as hung.
    Our workers are in the layout that `chorale up` would choose (CHORALE_LAYOUT).
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
        found = _measure(
            Path(home), pipeline or PIPELINE_FILE, questions, documents, lines, sorted(set(in_flight))
        )
    if as_json:
        print_json(found.to_wire())
    else:
        show_latency(stdout(), found)


def _measure(
    home: Path,
    pipeline_file: Path,
    questions: int,
    documents: int | None,
    output: Output,
    in_flight: Sequence[int],
) -> Latency:
    from bench.corpus_questions import questions_about
    from bench.latency import COUNTED_REQUESTS, ROUNDS
    from cli.demo.python_docs import SOURCE, python_docs
    from cli.local.bench_installation import bench_installation, chosen_layout
    from cli.terminal import stderr
    from cli.views.indexing_bar import note
    from tasks.indexing.indexing_run import SourceDocuments
    from tasks.indexing.namespace_writer import index_corpus

    corpus = list(islice(python_docs(), documents))
    counted, shown = min(COUNTED_REQUESTS, questions), min(WATERFALL_REQUESTS, questions)
    layout = chosen_layout(pipeline_file)
    # Each thread has two questions in each round.
    asked = {number: max(questions, 2 * ROUNDS * number) for number in in_flight}
    # No question comes twice: a worker would know its vector.
    texts = iter(questions_about(corpus, sum(asked.values()) + counted + shown))
    with (
        stderr().status("starting") as status,
        bench_installation(home, pipeline_file, output, layout) as found,
    ):
        index_corpus(
            found.resources,
            SourceDocuments(corpus, SOURCE, total=len(corpus)),
            namespace=NAMESPACE,
            progress=lambda so_far: status.update(
                f"indexing {so_far.documents:,} of {len(corpus):,} documents, {note(so_far)}"
            ),
        )
        try:
            given = {number: list(islice(texts, count)) for number, count in asked.items()}
            return _compare(found, given, texts, counted, layout, progress=status.update)
        finally:
            # Elasticsearch and Weaviate outlive the installation.
            found.resources.writing_store.drop(NAMESPACE)


def _compare(
    found: BenchInstallation,
    asked: Mapping[int, Sequence[str]],
    texts: Iterator[str],
    counted: int,
    layout: Layout,
    *,
    progress: Callable[[str], None],
) -> Latency:
    """`asked` are the questions for each number in flight.  Of `texts` the costs take `counted`, the waterfall the rest."""
    from bench.latency import Latency, compare, cpu_by_process, redis_cost, waterfall_of
    from bench.timing import WARMING, ask_all
    from bench.variants import make_variants

    real = make_variants(found.resources, {"namespace": NAMESPACE}, layout)
    options = {"namespace": NAMESPACE, "configuration": "noop", "include": ["ids"]}
    empty = [one for one in make_variants(found.resources, options, layout) if one.name != "cache"]
    for variant in (*real, *empty):
        # The plain chord's workers have no heartbeat: the first answer shows that all of them run.
        for _ in range(ATTEMPTS_TO_WARM):
            if ask_all(variant.ask, [WARMING]):
                break
    runs = compare(real, asked, run_only=found.run_only, progress=progress)
    no_op_runs = compare(
        empty, asked, run_only=found.run_only, progress=lambda what: progress(f"no-op branches: {what}")
    )
    cpu = cpu_by_process(runs) | cpu_by_process(no_op_runs, ", no-op")
    chord = real[0]
    found.run_only(chord.processes)
    progress("commands and bytes")
    cost = redis_cost(
        found.resources.redis,
        chord.ask,
        list(islice(texts, counted)),
        audit_url=found.resources.settings.audit_database_url,
    )
    return Latency(runs, no_op_runs, cost, cpu, waterfall_of([chord.ask(text) for text in texts]))


@bench.command("growth")
def growth(
    passages: Annotated[list[int], typer.Option(min=1_000, help="Sizes of the corpus.")] = SIZES,
    processes: Annotated[
        list[int], typer.Option(min=1, help="Processes for each branch and the fusion.")
    ] = PROCESSES,
    in_flight: Annotated[list[int], typer.Option(min=1, help="Numbers in flight.")] = GROWTH_IN_FLIGHT,
    questions: Annotated[int, typer.Option(min=2, help="Fewest questions for each row.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Measure requests a second and processor time as the corpus, the processes and the requests in flight grow.

    Passages are synthetic and have given vectors, so no model is loaded. Each list option may come several times.

    Examples:

        chorale bench growth --json

        chorale bench growth --passages 5000 --passages 200000 --processes 1 --in-flight 16
    """
    from config.blas_threads import limit_threads

    limit_threads()
    from cli.local.measured_pipeline import LastLines
    from cli.terminal import print_json, stdout
    from cli.views.latency import growth_table

    with LastLines() as lines, tempfile.TemporaryDirectory(prefix="chorale-bench-") as home:
        runs = list(_growth(Path(home), sorted(set(passages)), processes, in_flight, questions, lines))
    if as_json:
        print_json({"runs": runs})
    else:
        stdout().print(growth_table(runs))


def _growth(
    home: Path,
    sizes: Sequence[int],
    processes: Sequence[int],
    in_flight: Sequence[int],
    questions: int,
    output: Output,
) -> Iterator[dict[str, Any]]:
    from bench import given_vectors
    from bench.growth import fill, layout_of, measure
    from bench.no_op import PIPELINE_FILE
    from cli.local.bench_installation import bench_installation
    from cli.terminal import stderr

    os.environ |= {"CHORALE_EMBEDDER_BACKEND": given_vectors.BACKEND, "CHORALE_LAYOUT": "queues"}
    with stderr().status("starting") as status:
        for held, size in pairwise([0, *sizes]):
            for number in processes:
                layout = layout_of(number)
                with bench_installation(home, PIPELINE_FILE, output, layout, plain=False) as found:
                    if number == processes[0]:
                        fill(found.resources, held, size, lambda done: status.update(f"{done:,} passages"))
                    status.update(f"{size:,} passages, {number} processes a branch")
                    yield from measure(
                        found.resources,
                        found.run_only,
                        size=size,
                        processes=number,
                        in_flight=in_flight,
                        questions=questions,
                    )
