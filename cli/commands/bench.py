"""`chorale bench`: the time and the cost of a request and of a bulk job, side by side with others."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from socket import create_server
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from cli.options import AsJson, command_group

if TYPE_CHECKING:
    from assembly.resources import Resources
    from bench.variants import Layout
    from cli.local.bench_installation import BenchInstallation
    from cli.local.ports import Address
    from ingest.raw_documents import RawDocument

NAMESPACE = "bench"
IN_FLIGHT = [1, 16, 64]
HTTP_IN_FLIGHT = [1, 16]
SIZES = [5_000, 20_000, 50_000, 100_000, 200_000]
PROCESSES = [1, 2, 4]
GROWTH_IN_FLIGHT = [1, 4, 16, 64]
WATERFALL_REQUESTS = 50
ATTEMPTS_TO_WARM = 4
"""Maximum warm-up requests; each takes up to `bench.variants.TIMEOUT_S`."""

bench = command_group("Measure the speed of this machine's pipeline.")
Questions: TypeAlias = Annotated[int, typer.Option(min=3, help="Questions for each number in flight.")]
Documents: TypeAlias = Annotated[
    int | None, typer.Option(min=100, help="Index only this many documents of the demo's corpus.")
]
InFlight: TypeAlias = Annotated[
    list[int], typer.Option(min=1, help="Numbers in flight; the option may come several times.")
]


@bench.command("latency")
def latency(
    questions: Questions = 300,
    documents: Documents = None,
    pipeline: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            resolve_path=True,
            help="A pipeline file with the branches of the usual one in other stores.",
        ),
    ] = None,
    in_flight: InFlight = IN_FLIGHT,
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
    from cli.terminal import print_result
    from cli.views.latency import latency_parts

    with _measured(documents, pipeline, plain=True) as measured:
        found = _latency(measured, questions, in_flight)
    print_result(found, *latency_parts(found), as_json=as_json)


def _latency(measured: Measured, questions: int, in_flight: Sequence[int]) -> dict[str, Any]:
    from bench.latency import COUNTED_REQUESTS, compare, cpu_by_process, redis_cost, waterfall_of
    from bench.timing import WARMING, ask_all
    from bench.variants import make_variants

    found, progress = measured.installation, measured.progress
    counted, shown = min(COUNTED_REQUESTS, questions), min(WATERFALL_REQUESTS, questions)
    asked, texts = measured.questions(questions, in_flight, more=counted + shown)
    real = make_variants(found.resources, {"namespace": NAMESPACE}, measured.layout)
    options = {"namespace": NAMESPACE, "configuration": "noop", "include": ["ids"]}
    empty = [one for one in make_variants(found.resources, options, measured.layout) if one.name != "cache"]
    for variant in (*real, *empty):
        # The plain chord's workers have no heartbeat: the first answer shows that all of them run.
        for _ in range(ATTEMPTS_TO_WARM):
            if ask_all(variant.ask, [WARMING]):
                break
    runs = compare(real, asked, run_only=found.run_only, progress=progress)
    no_op_runs = compare(
        empty, asked, run_only=found.run_only, progress=lambda what: progress(f"no-op branches: {what}")
    )
    chord = real[0]
    found.run_only(chord.processes)
    progress("commands and bytes")
    url = found.resources.settings.audit_database_url
    return {
        "runs": runs,
        "no_op_runs": no_op_runs,
        **redis_cost(found.resources.redis, chord.ask, texts[:counted], audit_url=url),
        "cpu_ms_per_request": cpu_by_process(runs) | cpu_by_process(no_op_runs, ", no-op"),
        "waterfall": waterfall_of([chord.ask(text) for text in texts[counted:]]),
    }


@dataclass(frozen=True)
class Measured:
    """A started installation that has the demo's corpus."""

    installation: BenchInstallation
    corpus: Sequence[RawDocument]
    layout: Layout
    progress: Callable[[str], None]

    @property
    def resources(self) -> Resources:
        return self.installation.resources

    def questions(
        self, count: int, in_flight: Sequence[int], *, more: int = 0
    ) -> tuple[dict[int, list[str]], list[str]]:
        """Questions for each number in flight, and `more` others.  None comes twice: a worker would know its vector."""
        from bench.corpus_questions import questions_about
        from bench.timing import ROUNDS

        # Each thread has two questions in each round.
        counts = {number: max(count, 2 * ROUNDS * number) for number in sorted(set(in_flight))}
        texts = iter(questions_about(self.corpus, sum(counts.values()) + more))
        return {number: list(islice(texts, wanted)) for number, wanted in counts.items()}, list(texts)


@contextmanager
def _measured(
    documents: int | None,
    pipeline: Path | None = None,
    *,
    others: Mapping[str, Sequence[str]] | None = None,
    bulk: int = 0,
    http: Address | None = None,
    plain: bool = False,
) -> Iterator[Measured]:
    """Starts an installation, and indexes the corpus.  It has these `others` besides the workers that answer, and `bulk` workers
    of jobs."""
    from config.blas_threads import limit_threads

    # This process is one of the variants: it gets as many threads as a worker.
    limit_threads()
    from bench.no_op import PIPELINE_FILE
    from cli.demo.python_docs import SOURCE, python_docs
    from cli.local.bench_installation import bench_installation, chosen_layout
    from cli.local.measured_pipeline import LastLines
    from cli.terminal import stderr
    from cli.views.indexing_bar import note
    from tasks.indexing.indexing_run import SourceDocuments
    from tasks.indexing.namespace_writer import index_corpus

    file, corpus = pipeline or PIPELINE_FILE, list(islice(python_docs(), documents))
    layout = {**chosen_layout(file), **(others or {})}
    layout |= {f"bulk-{number}": ("bulk",) for number in range(1, bulk + 1)}
    with (
        LastLines() as lines,
        tempfile.TemporaryDirectory(prefix="chorale-bench-") as home,
        stderr().status("starting") as status,
        bench_installation(Path(home), file, lines, layout, plain=plain, http=http) as found,
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
            yield Measured(found, corpus, layout, status.update)
        finally:
            # Elasticsearch and Weaviate outlive the installation.
            found.resources.writing_store.drop(NAMESPACE)


@bench.command("http")
def http(
    questions: Questions = 300,
    documents: Documents = None,
    in_flight: InFlight = HTTP_IN_FLIGHT,
    as_json: AsJson = False,
) -> None:
    """Measure searches over HTTP beside the same questions through the Python client, and beside callers without a key.

    A temporary installation with one process of the HTTP API is started, the demo's corpus is indexed, and both answer the
    same questions in turns. Then searches are measured alone and while 16 callers without a key send the largest bodies.
    Nothing else should run on the machine.

    Examples:

        chorale bench http

        chorale bench http --questions 60 --documents 500 --json
    """
    from rich.console import Group

    from cli.local.ports import Address
    from cli.terminal import print_result
    from cli.views.latency import figures_table, runs_table

    with create_server(("127.0.0.1", 0)) as free:
        address = Address(*free.getsockname())
    with _measured(documents, others={"retrieve": ("retrieve",)}, http=address) as measured:
        runs, keyless = _http(measured, address, questions, in_flight)
    found = {"runs": runs, "keyless": keyless}
    print_result(found, Group(runs_table("over HTTP", runs), figures_table(keyless)), as_json=as_json)


def _http(
    measured: Measured, address: Address, questions: int, in_flight: Sequence[int]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    from bench import keyless
    from bench.http import make_variants
    from bench.latency import compare
    from bench.timing import WARMING, ask_all
    from cli.local.http_api import own_key

    resources, found = measured.resources, measured.installation
    key = own_key(resources.settings)
    assert key is not None
    variants = make_variants(
        resources,
        {"namespace": NAMESPACE},
        list(measured.layout),
        port=address.port,
        key=key.read_text().strip(),
    )
    for variant in variants:
        ask_all(variant.ask, [WARMING])
    asked, others = measured.questions(questions, in_flight, more=questions)
    runs = compare(variants, asked, run_only=found.run_only, progress=measured.progress)
    by_http = variants[-1]
    found.run_only(by_http.processes)
    beside = keyless.compare(by_http.ask, others, port=address.port, progress=measured.progress)
    return runs, beside


@bench.command("bulk")
def bulk(
    questions: Annotated[int, typer.Option(min=200, help="Questions for each variant.")] = 10_000,
    requests: Annotated[
        int, typer.Option(min=20, help="Interactive requests, half of them beside a job.")
    ] = 600,
    documents: Documents = None,
    as_json: AsJson = False,
) -> None:
    """Measure a bulk job beside one process that answers the same questions without Celery, and beside the encoder alone.

    A temporary installation is started, the demo's corpus is indexed, and the variants answer the same questions in
    turns. The one process has every core and answers 64 questions at once, in one thread or two, whichever is faster.
    Then interactive requests are measured, one after another, alone and while a job runs. Nothing else should run on the
    machine.

    Examples:

        chorale bench bulk

        chorale bench bulk --questions 2000 --requests 200 --json
    """
    from cli.terminal import print_result
    from cli.views.latency import bulk_parts

    with _measured(documents, bulk=_bulk_processes()) as measured:
        found = _bulk(measured, questions, requests)
    print_result(found, *bulk_parts(found), as_json=as_json)


def _bulk_processes() -> int:
    from chorale_client.words import QUEUE_BULK

    from config.settings import load_settings

    return load_settings().processes(QUEUE_BULK)


def _bulk(measured: Measured, questions: int, requests: int) -> dict[str, Any]:
    from bench.bulk import BESIDE, BulkJobs, compare, interactive, many_questions
    from bench.chord_path import ChordPath
    from bench.timing import WARMING, ask_all
    from bench.variants import SWEEPER, TIMEOUT_S
    from tasks.registration import make_app

    resources, progress = measured.resources, measured.progress
    texts = many_questions(measured.corpus, questions + requests)
    jobs = BulkJobs(resources, NAMESPACE)
    options = {"namespace": NAMESPACE, "cache": "bypass", "timeout_s": TIMEOUT_S}
    ask = ChordPath(make_app(resources), resources, options).ask
    progress("loading the models")
    ask_all(ask, [WARMING])
    jobs.seconds([f"{WARMING} {number}" for number in range(8 * 64)])
    runs = compare(
        jobs,
        resources,
        NAMESPACE,
        texts[:questions],
        run_only=lambda run: measured.installation.run_only((*measured.layout, SWEEPER) if run else ()),
        progress=progress,
    )
    beside = [f"{text} beside" for text in many_questions(measured.corpus, BESIDE)]
    return {
        "runs": runs,
        "interactive": interactive(jobs, ask, texts[questions:], beside, progress=progress),
    }


@bench.command("crowding")
def crowding(
    requests: Annotated[int, typer.Option(min=60, help="Requests, half of them beside costly ones.")] = 1_500,
    documents: Documents = None,
    bulk_workers: Annotated[
        int | None, typer.Option(min=0, help="By default as many as `chorale up` has.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure requests, 25 in flight, alone and beside costly ones of 64 questions with 8 documents each.

    A temporary installation is started, and the demo's corpus is indexed. Without bulk workers the others answer costly requests,
    in slices. Nothing else should run on the machine.

    Examples:

        chorale bench crowding

        chorale bench crowding --requests 600 --documents 300 --bulk-workers 0 --json
    """
    from chorale_client import Chorale

    from cli.terminal import print_result
    from cli.views.latency import figures_table

    processes = _bulk_processes() if bulk_workers is None else bulk_workers
    with _measured(documents, others={"retrieve": ("retrieve",)}, bulk=processes) as measured:
        from bench.bulk import many_questions
        from bench.crowding import compare

        client = Chorale(measured.resources.redis_url)
        try:
            texts = many_questions(measured.corpus, requests)
            found = {
                "bulk_workers": processes,
                **compare(client, NAMESPACE, texts, progress=measured.progress),
            }
        finally:
            client.close()
    print_result(found, figures_table(found), as_json=as_json)


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
    from cli.terminal import print_result
    from cli.views.latency import growth_table

    runs = list(_growth(sorted(set(passages)), processes, in_flight, questions))
    print_result({"runs": runs}, growth_table(runs), as_json=as_json)


def _growth(
    sizes: Sequence[int], processes: Sequence[int], in_flight: Sequence[int], questions: int
) -> Iterator[dict[str, Any]]:
    from config.blas_threads import limit_threads

    limit_threads()
    from bench import given_vectors
    from bench.growth import fill, layout_of, measure
    from bench.no_op import PIPELINE_FILE
    from cli.local.bench_installation import bench_installation
    from cli.local.measured_pipeline import LastLines
    from cli.terminal import stderr

    os.environ |= {"CHORALE_EMBEDDER_BACKEND": given_vectors.BACKEND, "CHORALE_LAYOUT": "queues"}
    with (
        LastLines() as lines,
        tempfile.TemporaryDirectory(prefix="chorale-bench-") as home,
        stderr().status("starting") as status,
    ):
        for held, size in pairwise([0, *sizes]):
            for number in processes:
                with bench_installation(
                    Path(home), PIPELINE_FILE, lines, layout_of(number), plain=False
                ) as found:
                    if number == processes[0]:
                        fill(found.resources, held, size, lambda done: status.update(f"{done:,} passages"))
                    status.update(f"{size:,} passages, {number} processes a branch")
                    yield from measure(found.resources, found.run_only, size, number, in_flight, questions)
