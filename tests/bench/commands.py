"""`python -m tests.bench`: the time and the cost of a request and of a bulk job, side by side with others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from socket import create_server
from typing import Annotated, Any, TypeAlias

import typer
from chorale_client.wire_names import QUEUE_BULK
from rich.table import Table

from cli.local.ports import Address
from cli.local.servers import own_key
from cli.options import AsJson, command_group
from cli.terminal import plain_table, print_result, stderr
from config.settings import load_settings
from tests.bench import bulk as jobs
from tests.bench import growth as growing
from tests.bench.cells import make_variants as make_cell_variants
from tests.bench.cells import run_only
from tests.bench.http import make_variants as make_http_variants
from tests.bench.installation import NAMESPACE, Measured, measured_installation
from tests.bench.latency import COUNTED_REQUESTS, redis_cost, waterfall_of
from tests.bench.timing import WARMING, Variant, ask_all, compare
from tests.bench.variants import make_variants

IN_FLIGHT = [1, 16, 64]
SIZES = [5_000, 50_000, 200_000]
PROCESSES = [1, 2, 4]
WATERFALL_REQUESTS = 50
ATTEMPTS_TO_WARM = 4
"""Maximum warm-up requests; each takes up to TIMEOUT_S."""

bench = command_group(
    "Measure the speed of this machine's pipeline. Each command starts a temporary installation; nothing else should run."
)
Questions: TypeAlias = Annotated[int, typer.Option(min=3, help="Questions for each number in flight.")]
Documents: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Index only this many documents of the corpus.")
]
InFlight: TypeAlias = Annotated[
    list[int], typer.Option(min=1, help="Numbers in flight; the option may come several times.")
]


def table_of(title: str, rows: Iterable[Mapping[str, Any]]) -> Table:
    """A column for each field of the rows; of the processor time of processes the sum."""
    rows = list(rows)
    names = list(rows[0])
    table = plain_table(*((f">{name}" if at else title) for at, name in enumerate(names)))
    for row in rows:
        values = (sum(row[name].values()) if isinstance(row[name], dict) else row[name] for name in names)
        table.add_row(
            *(
                "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
                for value in values
            )
        )
    return table


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
    cost = {name: value for name, value in figures.items() if not isinstance(value, list)}
    titles = {
        "runs": "real branches",
        "no_op_runs": "branches without work",
        "waterfall": "medians",
        "redis_at": "in Redis",
    }
    tables = [table_of(title, figures[name]) for name, title in titles.items()]
    print_result(figures, *tables, table_of("a request", [cost]), as_json=as_json)


def _latency(measured: Measured, questions: int, in_flight: Sequence[int]) -> dict[str, Any]:
    resources = measured.resources
    counted, drawn = min(COUNTED_REQUESTS, questions), min(WATERFALL_REQUESTS, questions)
    by_in_flight, texts = measured.questions(questions, in_flight, more=counted + drawn)
    real = make_variants(resources, {"namespace": NAMESPACE}, measured.layout)
    options = {"namespace": NAMESPACE, "configuration": "noop", "include": ["ids"]}
    empty = [
        variant for variant in make_variants(resources, options, measured.layout) if variant.name != "cache"
    ]
    runs, no_op_runs = (_compared(variants, by_in_flight, measured) for variants in (real, empty))
    chord = real[0]
    measured.installation.run_only(chord.processes)
    measured.progress("operations and bytes")
    url = resources.settings.audit_database_url
    return {
        "runs": runs,
        "no_op_runs": no_op_runs,
        **redis_cost(resources.redis, chord.ask, texts[:counted], audit_url=url),
        "waterfall": waterfall_of([chord.ask(text) for text in texts[counted:]]),
    }


def _compared(
    variants: Sequence[Variant], questions: Mapping[int, Sequence[str]], measured: Measured
) -> list[dict[str, Any]]:
    for variant in variants:
        measured.installation.run_only(variant.processes)
        # The plain chord's workers have no heartbeat: the first answer shows that all of them run.
        for _ in range(ATTEMPTS_TO_WARM):
            if ask_all(variant.ask, [WARMING]):
                break
    return compare(variants, questions, run_only=measured.installation.run_only, progress=measured.progress)


@bench.command()
def http(
    questions: Questions = 300,
    documents: Documents = None,
    in_flight: InFlight = IN_FLIGHT[:2],
    as_json: AsJson = False,
) -> None:
    """Measure searches over HTTP beside the same questions through the Python client."""
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
        runs = _compared(variants, measured.questions(questions, in_flight)[0], measured)
    print_result({"runs": runs}, table_of("over HTTP", runs), as_json=as_json)


@bench.command()
def cells(
    questions: Questions = 300,
    documents: Documents = None,
    in_flight: InFlight = IN_FLIGHT[1:],
    as_json: AsJson = False,
) -> None:
    """Measure requests without work through one cell and through two, which share this machine's cores."""
    with measured_installation(documents) as first, measured_installation(documents) as second:
        both = (first, second)
        runs = compare(
            make_cell_variants(both),
            first.questions(questions, in_flight)[0],
            run_only=partial(run_only, both),
            progress=first.progress,
        )
    print_result({"runs": runs}, table_of("branches without work", runs), as_json=as_json)


@bench.command()
def bulk(
    questions: Annotated[int, typer.Option(min=3, help="Questions for each variant.")] = 10_000,
    requests: Annotated[int, typer.Option(min=3, help="Interactive requests, alone and beside a job.")] = 300,
    documents: Documents = None,
    as_json: AsJson = False,
) -> None:
    """Measure a bulk job beside one process that answers the same questions without Celery.

    The one process has every core and answers 64 questions at once. Then interactive requests are measured, one after
    another, alone and while a job runs.
    """
    processes = load_settings().processes(QUEUE_BULK)
    others = {f"bulk-{number}": ("bulk",) for number in range(1, 1 + processes)}
    with measured_installation(documents, others=others) as measured:
        figures = jobs.measure(measured, questions, requests)
    tables = [
        table_of(title, figures[name]) for name, title in (("runs", "bulk"), ("interactive", "interactive"))
    ]
    print_result(figures, *tables, as_json=as_json)


@bench.command()
def growth(
    passages: Annotated[list[int], typer.Option(min=1_000, help="Sizes of the corpus.")] = SIZES,
    processes: Annotated[
        list[int], typer.Option(min=1, help="Processes for each branch and the fusion.")
    ] = PROCESSES,
    in_flight: InFlight = IN_FLIGHT,
    questions: Annotated[int, typer.Option(min=2, help="Fewest questions for each row.")] = 100,
    replicas: Annotated[
        bool, typer.Option("--replicas", help="Processes that each serve all branches and the fusion.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure requests a second and processor time as the corpus, the processes and the requests in flight grow.

    The passages and their vectors are synthetic, so no model is loaded. Each list option may come several times.
    """
    with stderr().status("starting") as status:
        sizes = sorted(set(passages))
        runs = list(growing.measure(sizes, processes, in_flight, questions, status.update, replicas=replicas))
    print_result({"runs": runs}, table_of("growth", runs), as_json=as_json)
