"""`chorale search`: ask a running installation a question."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer


def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to ask.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace to search.")] = "default",
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Number of hits, 1 to 1,000.")] = 5,
    configuration: Annotated[
        str | None,
        typer.Option("--configuration", "-c", help="A named set of ranking choices of the pipeline."),
    ] = None,
    branch: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this branch; may be given again.")
    ] = None,
    filter_: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", "-f", metavar="CONDITION", help="Only documents that meet it; may be given again."
        ),
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option(
            help="Seconds within which the answer comes, 0.05 to 60; by default the configuration's time, or 2."
        ),
    ] = None,
    snippet_chars: Annotated[int, typer.Option(help="Length of a snippet, 40 to 2,000 characters.")] = 240,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither read the cache nor store in it.")
    ] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show how each score came about, and the stages with their times."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as one JSON document.")] = False,
) -> None:
    """Ask a running installation and show the fused answer.

    A condition of `--filter` is `FIELD=VALUE`, `FIELD=A,B` (any of them), `FIELD!=VALUE`, `FIELD>=VALUE` (or `>`
    `<=` `<`), `FIELD~PART`, `FIELD=*` (has it); dates are ISO 8601. All conditions must hold.

    Exit code: 0 complete, 3 degraded (something was missing, which is named), 4 failed, 5 skipped, 6 cancelled,
    7 refused, 2 wrong usage, 1 anything else.

    Examples:

        chorale search "how long is the notice period" --namespace law

        chorale search "ERR-4711" -n law --branch bm25 --explain

        chorale search "late rent" -n law --filter 'year>=2020' --filter 'source=faq,guide' --json
    """
    from chorale_client import make_request

    from cli.exit_codes import BY_STATUS, OTHER
    from cli.filters import WrongFilter, parse_filters
    from cli.installation import NotRunning, find_installation
    from cli.monitoring.heartbeats import read_heartbeats

    try:
        filters = parse_filters(filter_ or ())
    except WrongFilter as error:
        raise typer.BadParameter(str(error), param_hint="--filter") from None
    include = ["ids", "metadata", "snippets"]
    if explain or not as_json:
        include.append("explanation")
    options: dict[str, Any] = {
        "namespace": namespace,
        "top_k": top_k,
        "configuration": configuration,
        "branches": branch or None,
        "filters": filters,
        "snippet_chars": snippet_chars,
        "include": include,
        "cache": "bypass" if no_cache else "use",
    }
    if timeout_s is not None:
        options["timeout_s"] = timeout_s
    installation = find_installation(is_client=True)
    request = make_request(question, **options)
    if not read_heartbeats(installation.running_redis()):
        raise NotRunning(
            "Redis answers, but no worker does: start them with `chorale up` in another terminal"
        )
    answer = installation.client().ask(request)
    if as_json:
        # A field that was not asked for is left out, not null.
        sys.stdout.write(answer.model_dump_json(exclude_unset=True) + "\n")
    else:
        from cli.terminal import stdout
        from cli.views.answer import show_answer

        show_answer(stdout(), answer, explain=explain)
    raise typer.Exit(BY_STATUS.get(answer.status, OTHER))
