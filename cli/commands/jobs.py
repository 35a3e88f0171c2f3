"""`chorale jobs`: bulk jobs, a file of questions that is answered while interactive requests go first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from cli.exit_codes import PART_DONE, job_exit_code
from cli.jobs.submission import NoJobs, OpenJobs, deadline_s_of, open_jobs, opened, store_lines, target_of
from cli.jobs.view import (
    comparison_parts,
    form_of_results,
    job_facts,
    jobs_table,
    replaced,
    watch_job,
    write_to_stdout,
)
from cli.namespace_states import language_lines
from cli.options import (
    AsJson,
    Configuration,
    Namespace,
    OlderThan,
    RequestOptions,
    Yes,
    command_group,
    confirm_deletion,
    parse_options,
    seconds_of,
)
from cli.output import print_json, print_line
from cli.terminal import counted, print_result, stderr
from records.jobs.job import RETRIED, Job
from records.jobs.result_formats import writer_of

jobs = command_group("Submit files of questions, watch and steer the jobs, and read their results.")

JobId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The job's id, or its beginning.")]
Deadline: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="The job ends after this time, as in 30m, 2h or 1d; by default never."),
]
Watch: TypeAlias = Annotated[bool, typer.Option("--watch", help="Show the progress until the job has ended.")]


@jobs.command()
def submit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines or CSV; `-` reads stdin.")],
    namespace: Namespace = "default",
    format_: Annotated[
        Literal["jsonl", "csv"] | None,
        typer.Option("--format", help="The default follows the file's name; `jsonl` for stdin."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="A name for lists; by default the file's name.", show_default=False)
    ] = None,
    tenant: Annotated[
        str,
        typer.Option(help="The owner; jobs of several tenants take turns. By default the namespace."),
    ] = "",
    weight: Annotated[float, typer.Option(help="The tenant's share: 2 gets twice as many lines as 1.")] = 1.0,
    deadline: Deadline = None,
    on_error: Annotated[
        Literal["refuse", "skip"],
        typer.Option(
            help="A wrong line refuses the whole file, or is skipped with its error in the results."
        ),
    ] = "refuse",
    on_end: Annotated[
        str | None,
        typer.Option(
            metavar="URL|TASK@QUEUE",
            help="An address, or a task on a queue, to call when the job has ended.",
            show_default=False,
        ),
    ] = None,
    configuration: Configuration = None,
    options: RequestOptions = None,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """Store the questions of a file as a job, and print the job's id.

    A line is `{"id", "text" | "questions", ...options of a request}`; a CSV file has the columns `id` and `text` and
    optional columns of options. Ids and lines are checked first. The options of a line replace those given here. If
    nothing runs, the job is stored, and answered when `chorale up` runs.

    Exit code: 0 submitted; with `--watch` 0 completed, 3 with degraded lines, 8 with lines that failed, were refused or
    got no answer, 4 failed, 6 cancelled; 2 wrong usage or wrong lines, 1 anything else.

    Examples:

        chorale jobs submit questions.csv --namespace law --watch

        chorale jobs submit - -n law --deadline 2h --options '{"filters": {"year": {"gte": 2020}}}'
    """
    from chorale_client.jobs.lines import defaults_in, form_of, read_lines

    from records.jobs.submitting import described, new_job

    defaults = parse_options(options)
    defaults |= {} if configuration is None else {"configuration": configuration}
    form = form_of(file, format_)
    if name is None:
        name = "" if file == "-" else Path(file).name
    about = described(
        namespace=namespace,
        name=name,
        tenant=tenant,
        weight=weight,
        deadline_s=deadline_s_of(deadline),
        on_end=target_of(on_end),
    )
    with opened(file) as stream, open_jobs(create=True) as opened_jobs:
        new = new_job(about, opened_jobs.installation.settings, opened_jobs.now_ms())
        lines = read_lines(stream, form=form, defaults=defaults_in(namespace, defaults))
        read = store_lines(opened_jobs, new, lines, refuses=on_error == "refuse")
        if not as_json:
            print_line(new.job_id)
        if read.wrong:
            stderr().print(read.describe(), soft_wrap=True)
        for line in language_lines(opened_jobs.installation, namespace):
            stderr().print(line, soft_wrap=True)
        if missing := opened_jobs.missing() or opened_jobs.unknown_namespace(namespace):
            stderr().print(missing, soft_wrap=True)
        if watch:
            job = _watched(opened_jobs, new.job_id)
        else:
            job = opened_jobs.store.get(new.job_id)
            stderr().print(
                f"{counted(job.total, 'line')} submitted; `chorale jobs show {new.job_id} --watch` watches"
            )
    if as_json or watch:
        print_result(job.to_wire(), job_facts(job), as_json=as_json)
    raise typer.Exit(job_exit_code(job.outcome, job.counts) if watch else 0)


MOST_LISTED = 100_000


@jobs.command("list")
def list_(
    n: Annotated[int, typer.Argument(metavar="[N]", min=1, max=MOST_LISTED, help="Number of jobs.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the last jobs, newest first."""
    try:
        with open_jobs() as opened:
            last = opened.store.last(n + 1)
    except NoJobs:
        last = []
    has_more, last = len(last) > n, last[:n]
    table = jobs_table(last) if last else "there are no jobs yet: `chorale jobs submit FILE` makes one"
    more = (
        [f"there are older jobs: `chorale jobs list {min(10 * n, MOST_LISTED)}`"]
        if has_more and n < MOST_LISTED
        else []
    )
    fields = {"jobs": [job.to_wire() for job in last], "has_more": has_more}
    print_result(fields, table, *more, as_json=as_json)


@jobs.command()
def show(job_id: JobId, watch: Watch = False, as_json: AsJson = False) -> None:
    """Show a job: its state, its lines by status, its rate and the time left.

    With `--watch` the exit code tells how the job has ended: 0 completed, 3 with degraded lines, 8 with lines that failed,
    were refused or got no answer, 4 failed, 6 cancelled.

    Examples:

        chorale jobs show 4ad2be09

        chorale jobs show 4ad2be09 --watch
    """
    with open_jobs() as opened:
        job = opened.store.find(job_id)
        if job.outcome is None and (missing := opened.missing()):
            stderr().print(missing, soft_wrap=True)
        if watch:
            job = _watched(opened, job.job_id)
    print_result(job.to_wire(), job_facts(job), as_json=as_json)
    raise typer.Exit(job_exit_code(job.outcome, job.counts) if watch else 0)


@jobs.command()
def pause(job_id: JobId, as_json: AsJson = False) -> None:
    """Send no further lines of a job to the workers; lines that they have are still answered."""
    _steer(job_id, "pause", "paused", as_json=as_json)


@jobs.command()
def resume(job_id: JobId, as_json: AsJson = False) -> None:
    """Go on with a paused job."""
    _steer(job_id, "resume", "goes on", as_json=as_json)


@jobs.command()
def cancel(job_id: JobId, as_json: AsJson = False) -> None:
    """End a job; its results stay, and its other lines get the status `cancelled`."""
    _steer(
        job_id, "cancel", "is cancelled as soon as the lines that workers have are answered", as_json=as_json
    )


@jobs.command()
def retry(
    job_id: JobId,
    only: Annotated[
        list[str],
        typer.Option(
            metavar="failed|expired|degraded",
            help="Lines with this status; `expired` includes cancelled lines. May be given again.",
        ),
    ],
    deadline: Deadline = None,
    as_json: AsJson = False,
) -> None:
    """Answer some lines of an ended job again; their new results take the place of the old ones.

    Examples:

        chorale jobs retry 4ad2be09 --only failed --only expired

        chorale jobs retry 4ad2be09 --only degraded --deadline 2h
    """
    if wrong := sorted({*only} - {*RETRIED}):
        raise typer.BadParameter(f"{wrong[0]!r} is none of {', '.join(RETRIED)}", param_hint="--only")
    after_s = deadline_s_of(deadline)
    with open_jobs() as opened:
        job, now_ms = opened.store.find(job_id), opened.now_ms()
        at_ms = None if after_s is None else now_ms + after_s * 1_000
        count = opened.store.retry(job.job_id, only, now_ms=now_ms, deadline_at_ms=at_ms)
        missing = opened.missing()
    sentence = f"{job.job_id}: {counted(count, 'line')} to be answered again"
    print_result({"job_id": job.job_id, "lines": count}, sentence, as_json=as_json)
    if missing:
        stderr().print(missing, soft_wrap=True)


@jobs.command()
def results(
    job_id: JobId,
    after: Annotated[
        int, typer.Option(min=0, metavar="LINE", help="Begin after the line with this number.")
    ] = 0,
    format_: Annotated[
        Literal["jsonl", "csv", "csv-raw", "parquet", "trec"] | None,
        typer.Option("--format", help="By default by the name of --output, or `jsonl`."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="A file instead of stdout; it is replaced when all is written.")
    ] = None,
) -> None:
    """Write the results of a job, a line for each question in input order.

    While the job runs, the results end before the first line without one; stderr says how many lines have none yet,
    and from which line to continue.

    Exit code: 0 all results, 8 the job goes on, 1 anything else.

    Examples:

        chorale jobs results 4ad2be09 --output answers.parquet

        chorale jobs results 4ad2be09 --after 6400 --format csv
    """
    form = form_of_results(format_, output)
    last = after
    with open_jobs() as opened:
        # The job is read before its results, because a job that ends meanwhile may have more results.
        job = opened.store.find(job_id)

        def lines() -> Iterator[Mapping[str, Any]]:
            nonlocal last
            for line in opened.store.results(job.job_id, after=after):
                last = line["line"]
                yield line

        if output is None:
            write_to_stdout(writer_of(form)(lines()), form)
        else:
            with replaced(output) as stream:
                stream.writelines(writer_of(form)(lines()))
            stderr().print(f"{output}: the results up to line {last:,}", soft_wrap=True)
    if job.outcome is None:
        stderr().print(
            f"{job.total - job.done:,} of {job.total:,} lines have no result yet; "
            f"go on with `chorale jobs results {job.job_id} --after {last}`",
            soft_wrap=True,
        )
        raise typer.Exit(PART_DONE)


@jobs.command()
def prune(older_than: OlderThan, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete jobs that ended before --older-than, with their questions and results.

    Examples:

        chorale jobs prune --older-than 30d --yes
    """
    age_s = seconds_of(older_than, "--older-than")
    with open_jobs() as opened:
        # No job is older than 1970, and a longer time may exceed the numbers of a database.
        before_ms = max(0, opened.now_ms() - age_s * 1_000)
        if not yes:
            there = counted(opened.store.old(before_ms=before_ms), "job")
            confirm_deletion(there, f"Delete {there} that ended more than {older_than} ago?", as_json=as_json)
        removed = opened.store.prune(before_ms=before_ms)
    sentence = f"{counted(removed, 'job')} that ended more than {older_than} ago: deleted"
    print_result({"removed": removed}, sentence, as_json=as_json)


@jobs.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="The id of an ended job, or its beginning.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The id of another one.")],
    as_json: AsJson = False,
) -> None:
    """Compare the results of two ended jobs over the same questions, line by line.

    Lines are matched by their ids. A pair in the JSON document has the first job's value, then the second job's.

    Examples:

        chorale jobs compare 4ad2be09 f5334cde
    """
    from records.jobs.comparison import compare_jobs

    with open_jobs() as opened:
        fields = compare_jobs(opened.store, [opened.store.find(begins) for begins in (first, second)])
    print_result(fields, *comparison_parts(fields), as_json=as_json)


def _watched(opened: OpenJobs, job_id: str) -> Job:
    """The job when it has ended; Ctrl-C ends the command and not the job."""
    try:
        return watch_job(opened.store, job_id, stderr())
    except KeyboardInterrupt:
        stderr().print(f"the job goes on; `chorale jobs cancel {job_id}` ends it", soft_wrap=True)
        raise typer.Exit(PART_DONE) from None


def _steer(begins: str, action: Literal["pause", "resume", "cancel"], effect: str, *, as_json: bool) -> None:
    with open_jobs() as opened:
        job: Job = getattr(opened.store, action)(opened.store.find(begins).job_id)
        missing = opened.missing()
    if as_json:
        print_json(job.to_wire())
    else:
        print_line(f"{job.job_id}: {effect}")
    if missing and action != "pause":
        stderr().print(missing, soft_wrap=True)
