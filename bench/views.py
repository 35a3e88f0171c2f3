"""What `python -m bench latency` measured, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cli.terminal import plain_table

if TYPE_CHECKING:
    from rich.table import Table

_FIGURES = (">in flight", ">p50 ms", ">p95 ms", ">p99 ms", ">requests/s", ">hung")


def latency_parts(figures: Mapping[str, Any]) -> Iterator[Table | str]:
    """What the console prints of `python -m bench latency`, from top to bottom."""
    for title, runs in (("real branches", figures["runs"]), ("branches without work", figures["no_op_runs"])):
        yield runs_table(title, runs)
        yield ""
    table = plain_table("where the time goes (medians)", ">begins at ms", ">takes ms")
    for line in figures["waterfall"]:
        begins = "" if line["start_ms"] is None else f"{line['start_ms']:.2f}"
        table.add_row(line["stage"], begins, f"{line['ms']:.2f}")
    yield table
    yield "\nprocessor time of one request, ms"
    for kind, runs in (("", figures["runs"]), (", no-op", figures["no_op_runs"])):
        for run in runs:
            spent = run["cpu_ms"]
            parts = ", ".join(f"{process} {ms:.1f}" for process, ms in spent.items() if ms >= 0.05)
            yield f"  {run['name']}{kind}, {run['in_flight']} in flight: {sum(spent.values()):.1f} ({parts})"
    verbs = ", ".join(f"{verb} {count:.2f}" for verb, count in figures["redis_commands_by_verb"].items())
    yield f"\nRedis, a request: {figures['redis_commands_per_request']:.1f} commands ({verbs}),"
    yield f"{figures['redis_bytes_left_per_request']:,} bytes left until the answer expires"
    for cost in figures["redis_at"]:
        yield (
            f"{cost['in_flight']} in flight: {cost['commands']:.1f} commands, {cost['operations']:.0f} operations with "
            f"those inside scripts, {cost['bytes_moved']:,} bytes moved"
        )


def bulk_parts(measured: Mapping[str, Any]) -> list[Table]:
    """What the console prints of `python -m bench bulk`, from top to bottom."""
    bulk = plain_table("bulk", ">questions/s", ">cpu ms a question")
    for run in measured["runs"]:
        bulk.add_row(run["name"], f"{run['questions_per_s']:,.1f}", f"{run['cpu_ms_per_question']:.2f}")
    interactive = plain_table("interactive requests", ">p50 ms", ">p95 ms")
    for name, title in (("alone", "alone"), ("beside", "beside a job")):
        figures = (measured["interactive"][f"{name}_{figure}_ms"] for figure in ("p50", "p95"))
        interactive.add_row(title, *map(str, figures))
    return [bulk, interactive]


def figures_table(figures: Mapping[str, Any]) -> Table:
    table = plain_table("figure", ">value")
    for name, value in figures.items():
        table.add_row(name, str(value))
    return table


def runs_table(title: str, runs: Sequence[dict[str, Any]]) -> Table:
    """A row for each variant and number in flight; `hung` counts the requests without an answer."""
    table = plain_table(title, *_FIGURES)
    for run in runs:
        values = (value for figure, value in run.items() if figure != "cpu_ms")
        table.add_row(*("" if value is None else str(value) for value in values))
    return table


def growth_table(runs: Sequence[dict[str, Any]]) -> Table:
    """A row for each size of the corpus, number of processes, and number in flight."""
    names = ("passages", "processes", "in_flight", "p50_ms", "p95_ms", "requests_per_s", "vector_mib")
    table = plain_table("growth", *(f">{name}" for name in names), ">cpu ms a request")
    for run in runs:
        table.add_row(*(str(run[name]) for name in names), f"{sum(run['cpu_ms'].values()):.1f}")
    return table
