"""`python -m bench`: the time and the cost of a request and of a bulk job, side by side with others."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from socket import create_server
from typing import Annotated, Any, TypeAlias

import typer
from chorale_client import Chorale
from chorale_client.wire_names import QUEUE_BULK
from rich.console import Group

from bench import bulk as jobs
from bench import crowding as costly
from bench import given_vectors, keyless
from bench.growth import fill, layout_of
from bench.growth import measure as measure_growth
from bench.http import make_variants as make_http_variants
from bench.installation import NAMESPACE, Measured, bench_installation, measured_installation
from bench.latency import COUNTED_REQUESTS, compare, cpu_by_process, redis_cost, waterfall_of
from bench.no_op import PIPELINE_FILE
from bench.timing import WARMING, ask_all
from bench.variants import SWEEPER, TIMEOUT_S, ChordPath, make_variants
from bench.views import bulk_parts, figures_table, growth_table, latency_parts, runs_table
from cli.local.measured_pipeline import LastLines
from cli.local.ports import Address
from cli.local.servers import own_key
from cli.options import AsJson, command_group
from cli.terminal import print_result, stderr
from config.settings import load_settings
from tasks.registration import make_app

IN_FLIGHT = [1, 16, 64]
HTTP_IN_FLIGHT = [1, 16]
SIZES = [5_000, 20_000, 50_000, 100_000, 200_000]
PROCESSES = [1, 2, 4]
GROWTH_IN_FLIGHT = [1, 4, 16, 64]
WATERFALL_REQUESTS = 50
ATTEMPTS_TO_WARM = 4
"""Maximum warm-up requests; each takes up to TIMEOUT_S."""

bench = command_group(
    "Measure the speed of this machine's pipeline. Each command starts a temporary installation; nothing else should run."
)
Questions: TypeAlias = Annotated[int, typer.Option(min=3, help="Questions for each number in flight.")]
Documents: TypeAlias = Annotated[
    int | None, typer.Option(min=100, help="Index only this many documents of the demo's corpus.")
]
InFlight: TypeAlias = Annotated[
    list[int], typer.Option(min=1, help="Numbers in flight; the option may come several times.")
]


@bench.command()
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

    A request that never ends is counted as hung. The workers are in the layout of `chorale up` (CHORALE_LAYOUT).
    """
    with measured_installation(documents, pipeline, plain=True) as measured:
        figures = _latency(measured, questions, in_flight)
    print_result(figures, *latency_parts(figures), as_json=as_json)


def _latency(measured: Measured, questions: int, in_flight: Sequence[int]) -> dict[str, Any]:
    resources, run_only, progress = measured.resources, measured.installation.run_only, measured.progress
    counted, drawn = min(COUNTED_REQUESTS, questions), min(WATERFALL_REQUESTS, questions)
    by_in_flight, texts = measured.questions(questions, in_flight, more=counted + drawn)
    real = make_variants(resources, {"namespace": NAMESPACE}, measured.layout)
    options = {"namespace": NAMESPACE, "configuration": "noop", "include": ["ids"]}
    empty = [
        variant for variant in make_variants(resources, options, measured.layout) if variant.name != "cache"
    ]
    for variant in (*real, *empty):
        # The plain chord's workers have no heartbeat: the first answer shows that all of them run.
        for _ in range(ATTEMPTS_TO_WARM):
            if ask_all(variant.ask, [WARMING]):
                break
    runs = compare(real, by_in_flight, run_only=run_only, progress=progress)
    no_op_runs = compare(
        empty, by_in_flight, run_only=run_only, progress=lambda what: progress(f"no-op branches: {what}")
    )
    chord = real[0]
    run_only(chord.processes)
    progress("commands and bytes")
    url = resources.settings.audit_database_url
    return {
        "runs": runs,
        "no_op_runs": no_op_runs,
        **redis_cost(resources.redis, chord.ask, texts[:counted], audit_url=url),
        "cpu_ms_per_request": cpu_by_process(runs) | cpu_by_process(no_op_runs, ", no-op"),
        "waterfall": waterfall_of([chord.ask(text) for text in texts[counted:]]),
    }


@bench.command()
def http(
    questions: Questions = 300,
    documents: Documents = None,
    in_flight: InFlight = HTTP_IN_FLIGHT,
    as_json: AsJson = False,
) -> None:
    """Measure searches over HTTP beside the same questions through the Python client, and beside callers without a key."""
    with create_server(("127.0.0.1", 0)) as free:
        address = Address(*free.getsockname())
    with measured_installation(documents, others={"retrieve": ("retrieve",)}, http=address) as measured:
        key = own_key(measured.resources.settings)
        assert key is not None
        variants = make_http_variants(
            measured.resources,
            {"namespace": NAMESPACE},
            list(measured.layout),
            port=address.port,
            key=key.read_text().strip(),
        )
        for variant in variants:
            ask_all(variant.ask, [WARMING])
        by_in_flight, others = measured.questions(questions, in_flight, more=questions)
        run_only, by_http = measured.installation.run_only, variants[-1]
        runs = compare(variants, by_in_flight, run_only=run_only, progress=measured.progress)
        run_only(by_http.processes)
        beside = keyless.compare(by_http.ask, others, port=address.port, progress=measured.progress)
    tables = Group(runs_table("over HTTP", runs), figures_table(beside))
    print_result({"runs": runs, "keyless": beside}, tables, as_json=as_json)


@bench.command()
def bulk(
    questions: Annotated[int, typer.Option(min=200, help="Questions for each variant.")] = 10_000,
    requests: Annotated[
        int, typer.Option(min=20, help="Interactive requests, half of them beside a job.")
    ] = 600,
    documents: Documents = None,
    as_json: AsJson = False,
) -> None:
    """Measure a bulk job beside one process that answers the same questions without Celery, and beside the encoder alone.

    The one process has every core and answers 64 questions at once, in one thread or two, whichever is faster. Then
    interactive requests are measured, one after another, alone and while a job runs.
    """
    with measured_installation(documents, bulk=load_settings().processes(QUEUE_BULK)) as measured:
        figures = _bulk(measured, questions, requests)
    print_result(figures, *bulk_parts(figures), as_json=as_json)


def _bulk(measured: Measured, questions: int, requests: int) -> dict[str, Any]:
    resources, progress = measured.resources, measured.progress
    texts = jobs.many_questions(measured.corpus, questions + requests)
    of_installation = jobs.BulkJobs(resources, NAMESPACE)
    options = {"namespace": NAMESPACE, "cache": "bypass", "timeout_s": TIMEOUT_S}
    ask = ChordPath(make_app(resources), resources, options).ask
    progress("loading the models")
    ask_all(ask, [WARMING])
    of_installation.seconds([f"{WARMING} {number}" for number in range(8 * 64)])
    runs = jobs.compare(
        of_installation,
        resources,
        NAMESPACE,
        texts[:questions],
        run_only=lambda run: measured.installation.run_only((*measured.layout, SWEEPER) if run else ()),
        progress=progress,
    )
    beside = [f"{text} beside" for text in jobs.many_questions(measured.corpus, jobs.BESIDE)]
    interactive = jobs.interactive(of_installation, ask, texts[questions:], beside, progress=progress)
    return {"runs": runs, "interactive": interactive}


@bench.command()
def crowding(
    requests: Annotated[int, typer.Option(min=60, help="Requests, half of them beside costly ones.")] = 1_500,
    documents: Documents = None,
    bulk_workers: Annotated[
        int | None, typer.Option(min=0, help="By default as many as `chorale up` has.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure requests, 25 in flight, alone and beside costly ones of 64 questions with 8 documents each.

    Without bulk workers the others answer costly requests, in slices.
    """
    processes = load_settings().processes(QUEUE_BULK) if bulk_workers is None else bulk_workers
    with measured_installation(documents, others={"retrieve": ("retrieve",)}, bulk=processes) as measured:
        client = Chorale(measured.resources.redis_url)
        try:
            texts = jobs.many_questions(measured.corpus, requests)
            times = costly.compare(client, NAMESPACE, texts, progress=measured.progress)
        finally:
            client.close()
    figures = {"bulk_workers": processes, **times}
    print_result(figures, figures_table(figures), as_json=as_json)


@bench.command()
def growth(
    passages: Annotated[list[int], typer.Option(min=1_000, help="Sizes of the corpus.")] = SIZES,
    processes: Annotated[
        list[int], typer.Option(min=1, help="Processes for each branch and the fusion.")
    ] = PROCESSES,
    in_flight: InFlight = GROWTH_IN_FLIGHT,
    questions: Annotated[int, typer.Option(min=2, help="Fewest questions for each row.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Measure requests a second and processor time as the corpus, the processes and the requests in flight grow.

    Passages are synthetic and have given vectors, so no model is loaded. Each list option may come several times.
    """
    runs = list(_growth(sorted(set(passages)), processes, in_flight, questions))
    print_result({"runs": runs}, growth_table(runs), as_json=as_json)


def _growth(
    sizes: Sequence[int], processes: Sequence[int], in_flight: Sequence[int], questions: int
) -> Iterator[dict[str, Any]]:
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
                ) as installation:
                    if number == processes[0]:
                        fill(
                            installation.resources,
                            held,
                            size,
                            lambda done: status.update(f"{done:,} passages"),
                        )
                    status.update(f"{size:,} passages, {number} processes a branch")
                    yield from measure_growth(
                        installation.resources, installation.run_only, size, number, in_flight, questions
                    )
