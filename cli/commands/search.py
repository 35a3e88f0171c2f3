"""`chorale search` and `chorale cancel`: ask a running installation a question, and end a request."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import AsJson, Configuration, Namespace, RequestOptions

if TYPE_CHECKING:
    from cli.installation import Installation


def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to ask.")],
    namespace: Namespace = "default",
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Number of hits, 1 to 1,000.")] = 5,
    configuration: Configuration = None,
    filter_: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", "-f", metavar="CONDITION", help="A condition on documents; may be given again."
        ),
    ] = None,
    options: RequestOptions = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show how each score came about, and the stages with their times."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Ask a running installation and show the fused answer.

    A condition of `--filter` is `FIELD=VALUE`, `FIELD=A,B` (any of them), `FIELD!=VALUE`, `FIELD>=VALUE` (or `>`
    `<=` `<`), `FIELD~PART`, `FIELD=*` (has it); dates are ISO 8601, also `2024` and `2024-05`. All conditions must hold.

    Exit code: 0 complete, 3 degraded (the answer names what is missing), 4 failed, 5 skipped, 6 cancelled,
    7 refused, 2 wrong usage, 1 anything else.

    Examples:

        chorale search "how long is the notice period" --namespace law

        chorale search "ERR-4711" -n law --explain --options '{"branches": ["bm25"], "cache": "bypass"}'

        chorale search "late rent" -n law --filter 'year>=2020' --filter 'source=faq,guide'

        chorale search "late rent" -n law --options '{"group_by": {"field": "source", "size": 2}, "diversity": 0.3}'
    """
    from chorale_client import Reason, make_request

    from cli.exit_codes import BY_STATUS, OTHER
    from cli.installation import find_installation
    from cli.options import parse_filters, parse_options
    from config.visible_text import visible_json

    explained = ["explanation"] if explain or not as_json else []
    fields: dict[str, Any] = {
        "namespace": namespace,
        "top_k": top_k,
        "configuration": configuration,
        "filters": parse_filters(filter_ or ()),
        "snippet_chars": 440,
        "include": ["ids", "metadata", "snippets", *explained],
        **parse_options(options),
    }
    installation = find_installation(is_anywhere=True, has_structlog=False)
    request = make_request(question, **fields)
    answer = installation.live_cells().ask(request)
    if as_json:
        # A field that was not asked for is left out, not null.
        sys.stdout.write(visible_json(answer.model_dump_json(exclude_unset=True)) + "\n")
    else:
        from cli.answer_view import show_answer
        from cli.terminal import stdout

        show_answer(stdout(), answer, explain=explain)
    if (
        any(missing.reason == Reason.BAD_INDEX for missing in answer.degraded)
        and installation.settings.home.is_dir()
    ):
        _say_if_unknown(installation, namespace)
    raise typer.Exit(BY_STATUS.get(answer.status, OTHER))


def _say_if_unknown(installation: Installation, namespace: str) -> None:
    """Tell the operator of this machine what an answer leaves out: where the namespace was looked for, and which exist."""
    from cli.namespace_states import existing
    from cli.output import print_line
    from models.errors import ServiceError, UnknownNamespace

    try:
        existing(installation, namespace)
    except UnknownNamespace as error:
        print_line(f"chorale: {error}", sys.stderr)
    except ServiceError as error:
        print_line(f"chorale: the namespaces cannot be listed here: {error}", sys.stderr)


def cancel(
    request_id: Annotated[
        str, typer.Argument(metavar="ID", help="A request's id, as its answer has it.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """End a request: everybody who waits for it gets an answer with the status `cancelled` and no hits.

    A request that has already ended keeps its answer, and the command shows its status.

    Exit code, by how the request has ended: 6 cancelled, 0 complete, 3 degraded, 4 failed, 5 skipped, 7 refused;
    1 for an unknown id, and for anything else.
    """
    from chorale_client import Status

    from cli.exit_codes import BY_STATUS, OTHER
    from cli.installation import find_installation
    from cli.terminal import stdout
    from config.visible_text import visible_json

    installation = find_installation(is_anywhere=True, has_structlog=False)
    cell = installation.cells.get(request_id.rpartition(".")[2], installation)
    answer = cell.client().cancel(request_id)
    if as_json:
        sys.stdout.write(visible_json(answer.model_dump_json(exclude_unset=True)) + "\n")
    elif answer.status == Status.CANCELLED:
        stdout().print(f"{request_id}: cancelled, {answer.took_ms:,.0f} ms after it was accepted")
    else:
        stdout().print(f"{request_id}: had ended before as {answer.status}")
    raise typer.Exit(BY_STATUS.get(answer.status, OTHER))
