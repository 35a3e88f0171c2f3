"""`chorale audit` and `chorale replay`: show requests and answers of the audit tables, delete them there, and fuse them again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.audit.trail import matching, recorded_request, trail
from cli.exit_codes import OTHER, PART_DONE
from cli.installation import NotRunning, find_installation
from cli.options import AsJson, OlderThan, Yes, command_group, confirm_deletion, seconds_of
from cli.output import print_line
from cli.terminal import Text, counted, print_result
from models.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis
    from rich.table import Table
    from sqlalchemy import Engine

    from evaluation.recorded.replay import Replay, ReplayedQuestion


audit = command_group("Show and delete past requests and answers: the audit trail.")


@audit.command()
def last(
    n: Annotated[int, typer.Argument(metavar="[N]", min=1, max=10_000, help="Number of requests.")] = 10,
    as_json: AsJson = False,
) -> None:
    """List the last requests, newest first."""
    from cli.audit.view import lines_table
    from records.audit import queries

    with trail() as engine:
        lines = queries.last(engine, n)
    table = lines_table(lines) if lines else "there are no requests yet"
    print_result({"requests": list(map(queries.listed, lines))}, table, as_json=as_json)


@audit.command()
def show(
    request_id: Annotated[str, typer.Argument(metavar="ID", help="The request's id, or its beginning.")],
    as_json: AsJson = False,
) -> None:
    """Show everything about one request: questions, branches, hits; with `--json` every candidate of every branch."""
    from cli.audit.view import request_parts

    row = recorded_request(request_id)
    print_result({"request": row.to_dict()}, *request_parts(row), as_json=as_json)


@audit.command()
def prune(older_than: OlderThan, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete requests that are older than --older-than, with the judgements of their hits.

    Examples:

        chorale audit prune --older-than 90d
    """
    import time

    from cli.progress import working_bar
    from records.audit import deletion

    # No request is older than 1970, and a longer time may exceed the numbers of a database.
    before_ms = max(0, time.time_ns() // 1_000_000 - seconds_of(older_than, "--older-than") * 1000)
    which, age = deletion.older_than(before_ms), f"older than {older_than}"
    with trail() as engine:
        if not yes:
            there = counted(deletion.count_matching(engine, which), "request")
            confirm_deletion(there, f"Delete {there} {age}?", as_json=as_json)
        with working_bar("deleting"):
            removed = deletion.remove_older(engine, before_ms)
    sentence = f"{counted(removed, 'request')} {age}: deleted from the trail"
    print_result({"removed": removed}, sentence, as_json=as_json)


@audit.command()
def erase(
    request: Annotated[
        str | None, typer.Option(metavar="ID", help="This request, by its id or the beginning of its id.")
    ] = None,
    correlation: Annotated[
        str | None, typer.Option(metavar="ID", help="Every request with this correlation id.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Every request of this namespace.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete the questions, candidates, answers and judgements of these requests, and of their shadows, also those that wait in Redis for the trail.

    Answers of these requests in Redis, the ended jobs of the namespace, and lines of ended jobs with the correlation id
    are erased too. Then Redis writes its append-only file anew, and SQLite empties its log: nothing of the texts is left
    in the home. Requests that are still running enter the trail when they end. A request that is not in the trail yet is
    found only by its whole id. Hits without their question stay in the cache for `CHORALE_CACHE_TTL_S`. Backups keep
    what they have.

    Exit code 8: the command names what it could not delete.

    Examples:

        chorale audit erase --request 4ad2be09-4ddf-40c0-a03e-e38b7d6e3a14

        chorale audit erase --correlation customer-17 --yes
    """
    from records.audit import deletion

    selectors = {"request_id": request, "correlation_id": correlation, "namespace": namespace}
    ((column, value), *others) = [(name, value) for name, value in selectors.items() if value] or [("", "")]
    if not column or others:
        raise typer.BadParameter("give one of --request, --correlation, --namespace", param_hint="erase")
    with trail() as engine:
        waiting = _call_redis(lambda redis: deletion.count_waiting(redis, column, value))
        in_outbox = waiting if isinstance(waiting, int) else 0
        if column == "request_id" and not in_outbox:
            value = matching(engine, value) or value
        count = deletion.count_matching(engine, deletion.requests_of(column, value)) + in_outbox
        selection = f"of {column.removesuffix('_id')} {value}"
        if not count and isinstance(waiting, int):
            raise ServiceError(f"nothing in the trail or on its way there is {selection}")
        if not yes:
            there = counted(count, "request")
            confirm_deletion(there, f"Delete {there} {selection}?", as_json=as_json)
        fields, remaining = _erase(engine, column, value)
    from_outbox, from_jobs = fields["removed_from_outbox"], fields["erased_from_jobs"]
    too = "" if from_outbox is None else f", {from_outbox:,} from the outbox"
    too += f", {counted(from_jobs, 'line')} of jobs" if from_jobs else ""
    sentence = f"{counted(fields['removed'], 'request')} {selection}: deleted from the trail{too}"
    print_result(fields, sentence, as_json=as_json)
    for what in remaining:
        print_line(f"chorale: {what}", sys.stderr)
    if remaining:
        raise typer.Exit(PART_DONE)


def _erase(engine: Engine, column: str, value: str) -> tuple[dict[str, Any], list[str]]:
    """What was erased, and a sentence for each thing that could not be done."""
    from cli.progress import working_bar
    from records.audit import deletion

    which = deletion.requests_of(column, value)
    # In this order: see records/audit/deletion.py.
    with working_bar("erasing"):
        from_outbox = _call_redis(lambda redis: deletion.erase_waiting(redis, column, value))
        deletion.wait_for_drainers(engine)
        ids = deletion.ids_of(engine, which)
        removed = deletion.remove_rows(engine, which)
        from_jobs, unended = _erase_from_jobs(column, value)
        is_rewritten = _call_redis(lambda redis: deletion.forget_answers(redis, ids))
        running = _call_redis(lambda redis: deletion.count_running_shadows(redis, ids))
        is_empty = deletion.checkpoint(engine)
    remaining = []
    if isinstance(running, int) and running:
        remaining.append(
            f"{counted(running, 'shadow')} of these requests still run: call this again in a minute"
        )
    if isinstance(from_outbox, str):
        remaining.append(
            f"the outbox was not reached, and requests that wait in it still enter the trail; {from_outbox}"
        )
    elif is_rewritten is not True:
        why = is_rewritten or "Redis has not written its append-only file anew"
        remaining.append(f"the texts stay in the append-only file of Redis until it is rewritten; {why}")
    if not is_empty:
        remaining.append(
            "the texts stay in the database's -wal file, since a process reads the database; call this again"
        )
    if unended:
        keep = "job has not ended and keeps its" if unended == 1 else "jobs have not ended and keep their"
        remaining.append(f"{unended:,} {keep} lines: `chorale jobs cancel`, then call this again")
    fields = {
        "removed": removed,
        "removed_from_outbox": None if isinstance(from_outbox, str) else from_outbox,
        "erased_from_jobs": from_jobs,
        "log_of_redis_rewritten": is_rewritten is True,
        "log_of_database_emptied": is_empty,
    }
    return fields, remaining


def _erase_from_jobs(column: str, value: str) -> tuple[int, int]:
    """How many lines of ended jobs were erased, and how many jobs have not ended and may have more of them."""
    from records.jobs.store import Jobs

    with closing(Jobs(find_installation().settings.audit_database_url)) as store:
        if column == "namespace":
            return store.erase_namespace(value), store.unended(value)
        return (store.erase_lines(value), store.unended()) if column == "correlation_id" else (0, 0)


def _call_redis(do: Callable[[Redis], int]) -> int | str:
    """What `do` returns, or a sentence why Redis cannot be asked."""
    from redis.exceptions import RedisError

    from config.redis_client import explained

    try:
        return do(find_installation().running_redis())
    except NotRunning as error:
        return str(error)
    except RedisError as error:
        return str(explained(error))


def replay(
    request_id: Annotated[str, typer.Argument(metavar="ID", help="The request's id, or its beginning.")],
    configuration: Annotated[
        str | None, typer.Option(help="Fuse with this configuration instead of the request's.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fuse a past request again from its audit rows: as it was, or under another configuration.

    No other process has to run, and no model is loaded. `--configuration` replaces method, weights and branches;
    filters, thresholds and boosts stay those of the request. The command names what the rows lack.

    Exit code: 0 replayed, 8 the rows lack something, 1 the recorded answer differs (or any error),
    2 wrong usage.
    """
    from config.settings import load_settings
    from evaluation.recorded.replay import replay as fused_again
    from models.errors import NotOffered
    from tasks.wiring.pipeline import load_pipeline

    pipeline = load_pipeline(load_settings().pipeline_file)
    try:
        replayed = fused_again(recorded_request(request_id), pipeline, configuration=configuration)
    except NotOffered as error:
        raise typer.BadParameter(str(error), param_hint="--configuration") from None
    print_result(replayed.to_wire(), *_parts(replayed), as_json=as_json)
    if not replayed.is_equal:
        raise typer.Exit(OTHER)
    if replayed.gaps:
        raise typer.Exit(PART_DONE)


def _parts(replay: Replay) -> Iterator[Table | Text | str]:
    """What the console prints: what was replayed, each question with its hits, and what the audit rows lack."""
    from cli.audit.view import UNKEPT
    from cli.evaluation_view import movements_table

    change = replay.was if replay.was == replay.now else f"{replay.was} → {replay.now}"
    yield f"{replay.request_id}  {change}"
    for question in replay.questions:
        yield ""
        yield Text.assemble(
            (UNKEPT if question.text is None else question.text, "bold"), ("  " + _verdict(question), "dim")
        )
        if question.moved:
            yield movements_table(question.moved)
    for gap in replay.gaps:
        yield Text(f"not in the rows: {gap.what}: {gap.why}", "yellow")


def _verdict(question: ReplayedQuestion) -> str:
    if question.is_equal is None:
        return "nothing to compare with the recorded answer"
    return "as recorded" if question.is_equal else "DIFFERS from the recorded answer"
