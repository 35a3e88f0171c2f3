"""An answer on a terminal: hits with snippets and branches, missing parts, and the stages over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from chorale_client.wire_names import Stage, StageStatus, Status, consequence
from rich.bar import Bar
from rich.table import Table

from cli.terminal import Text, counted, plain_table

if TYPE_CHECKING:
    from chorale_client.answer import Answer, Degradation, Hit, QuestionAnswer, Snippet, StageLine
    from rich.console import Console

STATUS_STYLES: Mapping[str, str] = {
    Status.COMPLETE: "green",
    Status.DEGRADED: "yellow",
    Status.FAILED: "red",
    Status.SKIPPED: "dim",
    Status.CANCELLED: "dim",
    Status.REFUSED: "red",
}
STAGE_STYLES: Mapping[str, str] = {
    StageStatus.OK: "cyan",
    StageStatus.PARTIAL: "yellow",
    StageStatus.SKIPPED: "dim",
    StageStatus.FAILED: "red",
}
WATERFALL_COLUMNS = 28
_STEPS = frozenset({Stage.EMBED, Stage.SEARCH, Stage.HYPOTHESIS})


def show_answer(console: Console, answer: Answer, *, explain: bool = False) -> None:
    """Print an answer; with `explain` also how its scores were computed, and the stages."""
    for question in answer.questions:
        if question.hits:
            console.print(hits_table(question.hits, explain=explain))
            console.print()
        if question.context is not None:
            console.print(Text(question.context.text))
            size = f"{counted(question.context.tokens, 'token')}, {question.context.left_out:,} passages left out"
            console.print(Text(size, "dim"))
            console.print()
        for line in confidence_lines(question, explain=explain):
            console.print(line)
    for line in missing_lines(answer.degraded, answer.warnings):
        console.print(line)
    if explain and answer.stages:
        console.print(waterfall(answer.stages))
        console.print()
    console.print(summary(answer))


def confidence_lines(question: QuestionAnswer, *, explain: bool = False) -> list[Text]:
    """That the question is abstained; with `explain` also the confidence and the signals that it was computed from."""
    lines = []
    if question.abstained and question.confidence is not None:
        sentence = (
            f": the confidence {question.confidence:.2f} is below that asked for; take no hit for an answer"
        )
        lines.append(Text.assemble(("abstained", "yellow"), sentence))
    if explain and question.confidence is not None:
        signals = ", ".join(f"{name} {value:.3f}" for name, value in question.signals.items())
        lines.append(
            Text(f"confidence {question.confidence:.2f}" + (f" ({signals})" if signals else ""), "dim")
        )
    return lines


def summary(answer: Answer) -> Text:
    """One line: status, number of hits and of matches, milliseconds, and the id for `chorale audit show`."""
    hits = sum(len(question.hits) for question in answer.questions)
    parts = [Text(answer.status, STATUS_STYLES.get(answer.status, ""))]
    parts.append(Text(_count_line(answer.questions, hits), "dim"))
    if removed := sum((Counter(question.removed) for question in answer.questions), Counter()):
        parts.append(Text("removed: " + ", ".join(f"{name} {n:,}" for name, n in removed.items()), "dim"))
    if relaxed := dict.fromkeys(name for question in answer.questions for name in question.relaxed):
        parts.append(Text("found without " + ", ".join(relaxed), "yellow"))
    parts.append(Text(f"{answer.took_ms:,.0f} ms" + (" from the cache" if answer.cached else ""), "dim"))
    if answer.retry_after_s is not None:
        parts.append(Text(f"ask again in {answer.retry_after_s:g} s", "yellow"))
    parts.append(Text(answer.request_id, "dim"))
    return Text(" · ", "dim").join(parts)


def _count_line(questions: Sequence[QuestionAnswer], hit_count: int) -> str:
    if not hit_count:
        return "no hits"
    hits = counted(hit_count, "hit")
    totals = [question.total_matches for question in questions if question.total_matches is not None]
    return f"{hits}, at least {sum(totals):,} matches" if totals and sum(totals) > hit_count else hits


def missing_lines(degraded: Iterable[Degradation], warnings: Iterable[str] = ()) -> list[Text]:
    """What was missing: a line for each reason, with all the places where it applies; then the warnings."""
    places: dict[tuple[str, str], list[str]] = {}
    for degradation in degraded:
        places.setdefault((degradation.reason, degradation.detail), []).append(degradation.where)
    missing = [
        Text.assemble(
            ("missing ", "yellow"),
            (", ".join(where), "bold"),
            f" {reason}",
            (f": {detail or consequence(reason).when}", "dim"),
        )
        for (reason, detail), where in places.items()
    ]
    return missing + [Text.assemble(("warning ", "yellow"), warning) for warning in warnings]


def hits_table(hits: Sequence[Hit], *, explain: bool = False) -> Table:
    """A row for each hit: rank, title and snippet, and its rank and score in each branch that found it."""
    table = plain_table(">", "document", "found by")
    table.columns[1].ratio = 1
    table.columns[2].no_wrap = True
    table.expand = True
    for number, hit in enumerate(hits):
        table.add_row(Text(str(hit.rank), "bold"), _document(hit), _branch_table(hit, explain=explain))
        if number < len(hits) - 1:
            table.add_row()
    return table


def _document(hit: Hit) -> Text:
    lines = [Text(hit.title or hit.document_id, "bold")]
    if hit.snippet is not None:
        lines.append(highlighted(hit.snippet))
    facts = [hit.document_id if hit.title else None, hit.source_type, hit.published_at, hit.url]
    facts += [f"{copy.why.replace('_', ' ')} {copy.document_id} folded" for copy in hit.folded]
    facts += [f"pinned by the rule {hit.pinned}"] if hit.pinned else []
    if line := " · ".join(filter(None, facts)):
        lines.append(Text(line, "dim"))
    return Text("\n").join(lines)


def highlighted(snippet: Snippet) -> Text:
    """The snippet on one line, with the words of the question highlighted."""
    # Each white space becomes one blank, so that the offsets stay valid.
    text = Text("".join(" " if character.isspace() else character for character in snippet.text))
    for start, end in snippet.highlights:
        text.stylize("bold yellow", start, end)
    return text


def _branch_table(hit: Hit, *, explain: bool) -> Table:
    """A line for each branch, and the fused score."""
    table = Table.grid(padding=(0, 1))
    for justify in ("left", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    for name, branch in hit.branches.items():
        raw = "" if branch.score is None else f"{branch.score:.3f}"
        table.add_row(name, f"#{branch.rank}" if branch.rank else "scored", raw)
        if explain:
            # A weight that was multiplied by a reliability has more digits than a declared one.
            weight = f"{branch.weight:.{2 if round(branch.weight, 2) == branch.weight else 5}f}"
            how = f"{weight} × {branch.normalised:.5f}"
            table.add_row("", Text("=", "dim"), Text(f"{how} = {branch.contribution:.5f}", "dim"))
    for name, factor in hit.boosts.items():
        table.add_row(Text(name, "dim"), "", Text(f"× {factor:.3f}", "dim"))
    if hit.pinned and not hit.branches:
        table.add_row(Text("pinned", "cyan"), "", "")
    else:
        table.add_row(Text(hit.score_kind or "score", "cyan"), "", Text(f"{hit.score:.5f}", "cyan"))
    return table


def waterfall(stages: Sequence[StageLine]) -> Table:
    """Each stage with a bar at its place in time; the steps of a branch are below it."""
    table = plain_table("stage", "", ">ms", "in → out", "")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    placed = placed_stages(stages)
    end_ms = max((start_ms + stage.ms for stage, start_ms, _ in placed), default=0) or 1
    for stage, start_ms, is_step in placed:
        is_ok = stage.status == StageStatus.OK
        style = STAGE_STYLES.get(stage.status, "")
        colour = "bright_black" if is_step or style == "dim" else style or "default"
        counts = "" if stage.n_out is None else f"{_number(stage.n_in)} → {_number(stage.n_out)}"
        again = None if stage.sent_again_ms is None else f"sent again after {stage.sent_again_ms:.0f} ms"
        detail = None if is_step else stage.detail
        remark = " ".join(filter(None, (None if is_ok else stage.status, detail, again)))
        table.add_row(
            Text(f"  {stage.stage}", "dim") if is_step else stage.stage,
            Bar(end_ms, start_ms, start_ms + stage.ms, width=WATERFALL_COLUMNS, color=colour),
            "" if stage.status == StageStatus.SKIPPED else f"{stage.ms:.1f}",
            Text(counts, "dim"),
            Text(remark, "dim" if is_ok else style),
        )
    return table


def placed_stages(stages: Iterable[StageLine]) -> list[tuple[StageLine, float, bool]]:
    """Each stage with the millisecond when it began, and whether it is a step of the branch above it.

    In the answer the steps of a branch come before it, without their beginnings: each begins when the one before it
    ends, the first one with the branch.  So do plan and cache, from the acceptance on.
    """
    placed: list[tuple[StageLine, float, bool]] = []
    steps: list[StageLine] = []
    planned_ms = 0.0
    for stage in stages:
        if stage.stage in (Stage.CACHE, Stage.PLAN):
            placed.append((stage, planned_ms, False))
            planned_ms += stage.ms
        elif stage.stage.startswith(f"{Stage.SEARCH}."):
            begun_ms = stage.start_ms or 0.0
            placed.append((stage, begun_ms, False))
            for step in steps:
                placed.append((step, begun_ms, True))
                begun_ms += step.ms
            steps = []
        elif stage.start_ms is None and stage.stage in _STEPS:
            steps.append(stage)
        else:
            placed.append((stage, stage.start_ms or (placed[-1][1] if placed else 0.0), False))
    return placed + [(step, step.start_ms or 0.0, False) for step in steps]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
