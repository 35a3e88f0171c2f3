"""`chorale replay`: fuses an audited request again, without any store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from cli.exit_codes import OTHER, PART_DONE
from cli.options import AsJson
from cli.terminal import Text, print_result

if TYPE_CHECKING:
    from rich.table import Table

    from evaluation.replay import Replay, ReplayedQuestion


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

    Examples:

        chorale replay 4ad2be09

        chorale replay 4ad2be09 --configuration scores --json
    """
    from cli.commands.audit import recorded_request
    from config.settings import load_settings
    from evaluation.replay import replay as fused_again
    from tasks.request.planning import NotOffered
    from wiring.pipeline import load_pipeline

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
    from cli.audit_view import UNKEPT
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
