"""Bulk jobs on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TextColumn

from cli.terminal import Text, counted, facts_table, plain_table
from cli.views.audit import moment, short_id
from cli.views.indexing_bar import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from jobs.job import Job

_STYLES = {"completed": "green", "cancelled": "yellow", "expired": "yellow", "failed": "red"}


def jobs_table(found: Sequence[Job]) -> Table:
    """A row for each job; on a narrow terminal the name is shortened."""
    table = plain_table("id", "submitted (UTC)", "namespace", "", ">lines", ">answered", "name")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for job in found:
        table.add_row(
            short_id(job.job_id),
            moment(job.created_at_ms),
            job.namespace,
            _state(job),
            f"{job.total:,}",
            _share(job),
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


def progress_line(job: Job) -> str:
    """State, lines, counts, rate and time left as one line."""
    counts = [f"{count:,} {name}" for name, count in _ended_counts(job)]
    return " · ".join(
        filter(None, (f"{job.state}: {job.answered:,} of {counted(job.total, 'line')}", *counts, pace(job)))
    )


def pace(job: Job) -> str:
    """Rate and time left; empty while they are unknown."""
    rate = None if job.rate_1m is None else f"{job.rate_1m:,.0f} lines/s"
    left = None if job.eta_s is None else f"{duration(job.eta_s)} left"
    return " · ".join(filter(None, (rate, left)))


def _ended_counts(job: Job) -> list[tuple[str, int]]:
    return [
        (name, count) for name, count in job.counts.items() if count and name not in ("pending", "running")
    ]


def _state(job: Job) -> Text:
    word = job.outcome or job.state
    return Text(word, _STYLES.get(word, "cyan"))


def _share(job: Job) -> str:
    return f"{job.answered / job.total:.0%}" if job.total else ""


class JobBar(Progress):
    """A progress bar that is shown on terminals alone and disappears at the end."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[lines]}", markup=False),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._lines = self.add_task("", total=None, lines="", note="")

    def show(self, job: Job) -> None:
        counts = [f"{count:,} {name}" for name, count in _ended_counts(job) if name != "complete"]
        note = " · ".join(filter(None, (*counts, pace(job))))
        lines = f"{job.answered:,} of {job.total:,}"
        self.update(
            self._lines,
            description=job.state,
            total=job.total,
            completed=job.answered,
            lines=lines,
            note=note,
        )

    def read(self, lines: int, wrong: int) -> None:
        """Lines of the file that are stored."""
        note = f"{wrong:,} wrong" if wrong else ""
        self.update(self._lines, description="validating", total=None, lines=f"{lines:,}", note=note)


def comparison_parts(found: Mapping[str, Any]) -> list[Any]:
    """What the console prints of a comparison, from top to bottom."""
    if not found["questions"]:
        head = "no line was answered in both jobs"
    else:
        head = (
            f"{counted(found['questions'], 'question')} of {counted(found['lines'], 'line')} compared: "
            f"{found['equal_top_hits']:.1%} have the same top hit, overlap@10 is {found['overlap_at_10']:.3f}"
        )
    table = plain_table("", *(f">{short_id(one)}" for one in found["jobs"]))
    rows = {"only in this job": found["only_in"], "without an answer": found["unanswered"]}
    first, second = found["degraded"]
    for missing in sorted({*first, *second}):
        rows[f"missing {missing}"] = [first.get(missing, 0), second.get(missing, 0)]
    for name, counts in rows.items():
        table.add_row(name, *(f"{count:,}" for count in counts))
    changed = [Text(f"  {one['overlap_at_10']:.2f}  {one['id']}") for one in found["most_changed"]]
    return [head, table, *(["overlap@10 of the questions that changed most:", *changed] if changed else [])]
