"""Bulk jobs on a terminal: lists, facts, the progress of one until it has ended, and comparisons; and their results as files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer
from chorale_client.tenants import short_id

from cli.terminal import Text, counted, duration, facts_table, moment, plain_table
from config.visible_text import visible, visible_json
from records.jobs.job import Job, State
from records.jobs.result_formats import FORMATS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from records.jobs.store import Jobs


_STYLES = {"completed": "green", "cancelled": "yellow", "expired": "yellow", "failed": "red"}
EVERY_S = 0.5


def jobs_table(jobs: Sequence[Job]) -> Table:
    """A row for each job; on a narrow terminal the name is shortened."""
    table = plain_table("id", "submitted (UTC)", "namespace", "", ">lines", ">answered", "name")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for job in jobs:
        table.add_row(
            short_id(job.job_id),
            moment(job.created_at_ms),
            job.namespace,
            _state(job),
            f"{job.total:,}",
            f"{job.answered / job.total:.0%}" if job.total else "",
            Text(job.name, no_wrap=True, overflow="ellipsis"),
        )
    return table


def job_facts(job: Job) -> Table:
    """A row for each fact of a job."""
    tenant = (
        "" if job.tenant == job.namespace and job.weight == 1 else f"{job.tenant} · weight {job.weight:g}"
    )
    facts: Mapping[str, str | Text] = {
        "job": job.job_id,
        "name": job.name,
        "state": _state(job),
        "reason": job.reason,
        "namespace": job.namespace,
        "tenant": tenant,
        "lines": f"{job.total:,}",
        **{name: f"{count:,}" for name, count in job.counts.items() if count},
        "deduplicated": f"{job.deduplicated:,}" if job.deduplicated else "",
        "rate": pace(job),
        **{
            name: f"{moment(at_ms)} UTC" if at_ms else ""
            for name, at_ms in (
                ("submitted", job.created_at_ms),
                ("started", job.started_at_ms),
                ("ended", job.ended_at_ms),
                ("deadline", job.deadline_at_ms),
            )
        },
        "tells": ", ".join((job.on_end or {}).values()),
    }
    return facts_table(facts)


def pace(job: Job) -> str:
    """Rate and time left; empty while they are unknown."""
    rate = None if job.rate_1m is None else f"{job.rate_1m:,.0f} lines/s"
    remaining = None if job.eta_s is None else f"{duration(job.eta_s)} left"
    return " · ".join(filter(None, (rate, remaining)))


def _state(job: Job) -> Text:
    word = job.outcome or job.state
    return Text(word, _STYLES.get(word, "cyan"))


def watch_job(store: Jobs, job_id: str, console: Console) -> Job:
    """Returns the job when it has ended.  A database that is away is asked again for a time."""
    from cli.progress import ProgressBar
    from records.jobs.submitting import insist

    with ProgressBar(console, prints_at_once=True) as bar:
        while (job := insist(lambda: store.get(job_id))).state != State.ENDED:
            counts = [
                f"{count:,} {name}"
                for name, count in job.counts.items()
                if count and name not in ("pending", "running")
            ]
            bar.say(job.state, total=job.total)
            bar.show(job.answered, note=" · ".join(filter(None, (*counts, pace(job)))))
            time.sleep(EVERY_S)
        return job


def comparison_parts(comparison: Mapping[str, Any]) -> list[Any]:
    """What the console prints of a comparison, from top to bottom."""
    if not comparison["questions"]:
        head = "no line was answered in both jobs"
    else:
        head = (
            f"{counted(comparison['questions'], 'question')} of {counted(comparison['lines'], 'line')} compared: "
            f"{comparison['equal_top_hits']:.1%} have the same top hit, overlap@10 is {comparison['overlap_at_10']:.3f}"
        )
    table = plain_table("", *(f">{short_id(job_id)}" for job_id in comparison["jobs"]))
    rows = {"only in this job": comparison["only_in"], "without an answer": comparison["unanswered"]}
    first, second = comparison["degraded"]
    for missing in sorted({*first, *second}):
        rows[f"missing {missing}"] = [first.get(missing, 0), second.get(missing, 0)]
    for name, counts in rows.items():
        table.add_row(name, *(f"{count:,}" for count in counts))
    changed = [
        Text(f"  {question['overlap_at_10']:.2f}  {question['id']}")
        for question in comparison["most_changed"]
    ]
    return [head, table, *(["overlap@10 of the questions that changed most:", *changed] if changed else [])]


def form_of_results(option: str | None, output: Path | None) -> str:
    """The format: `option`, else by the name of `output`, else JSON lines.  Raises BadParameter."""
    suffix = "" if output is None else output.suffix.removeprefix(".")
    form = option or (suffix if suffix in FORMATS else "jsonl")
    if form == "parquet" and output is None:
        raise typer.BadParameter("Parquet needs a file: add --output FILE", param_hint="--format")
    return form


def write_to_stdout(parts: Iterable[bytes], form: str) -> None:
    """Write results as they are; on a terminal, control characters become visible."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.writelines(parts)
        return
    made_visible = visible_json if form == "jsonl" else visible
    sys.stdout.writelines(made_visible(part.decode()) for part in parts)


@contextmanager
def replaced(file: Path) -> Iterator[IO[bytes]]:
    """A stream whose content replaces `file` when all of it is written; after an error `file` stays as it is."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as stream:
            yield stream
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
