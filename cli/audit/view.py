"""The audit trail on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chorale_client.answer import Degradation
from chorale_client.tenants import short_id
from chorale_client.wire_names import BranchStatus

from cli.answer_view import STATUS_STYLES, missing_lines
from cli.terminal import Text, facts_table, moment, plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from models.tables.audit import BranchRow, HitRow, QuestionRow, RequestRow

_BRANCH_STYLES = {"ok": "green", "empty": "green", "failed": "red"}
UNKEPT = "(text not kept)"


def lines_table(lines: Sequence[RequestRow]) -> Table:
    """A row for each request; on a narrow terminal the question is shortened."""
    table = plain_table("id", "accepted (UTC)", "namespace", "", ">ms", "question")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for line in lines:
        more = f" (and {len(line.questions) - 1} more)" if len(line.questions) > 1 else ""
        text = line.questions[0].text if line.questions else None
        table.add_row(
            short_id(line.request_id),
            moment(line.accepted_at_ms),
            line.namespace,
            Text(line.status, STATUS_STYLES.get(line.status, "")),
            f"{line.took_ms:,.0f}",
            # Set on the text: on the column, Rich would shorten all columns alike.
            Text(
                f"{UNKEPT if text is None else ' '.join(text.split())}{more}",
                no_wrap=True,
                overflow="ellipsis",
            ),
        )
    return table


def request_parts(row: RequestRow) -> Iterator[Table | Text | str]:
    """What the console prints: the request, its branches, and each question with its hits."""
    yield _facts(row)
    yield from missing_lines(map(Degradation.model_validate, row.degraded), row.warnings)
    if row.branches:
        yield ""
        yield branches_table(row.branches)
    for question in row.questions:
        yield ""
        yield _question_line(question)
        if question.hits:
            yield hits_table(question.hits)


def _facts(row: RequestRow) -> Table:
    status = Text.assemble(
        (row.status, STATUS_STYLES.get(row.status, "")), (f" · ended by {row.ended_by} after ", "dim")
    )
    rows: Mapping[str, str | Text] = {
        "request": row.request_id,
        "status": status.append(f"{row.took_ms:,.0f} ms"),
        "accepted": f"{moment(row.accepted_at_ms)} UTC",
        "namespace": row.namespace + ("" if row.generation is None else f" · generation {row.generation:,}"),
        "configuration": " · ".join(filter(None, (row.configuration, row.method))),
        "correlation": row.correlation_id or "",
        "tags": ", ".join(f"{name}={value}" for name, value in row.tags.items()),
        "models": ", ".join(f"{name} {value[:12]}" for name, value in row.models.items()),
    }
    return facts_table(rows)


def branches_table(branches: Sequence[BranchRow]) -> Table:
    """The result of each branch, with its number of candidates."""
    table = plain_table("branch", "", ">ms", ">candidates", ">weight", ">attempt", "")
    for branch in branches:
        rankings = branch.rankings
        candidates = f"{sum(len(ranking.hits) for ranking in rankings):,}"
        if branch.status == BranchStatus.OK and not rankings:
            candidates = "not kept"
        why = ": ".join(filter(None, (branch.reason, branch.detail)))
        table.add_row(
            Text(branch.branch, "bold"),
            Text(branch.status, _BRANCH_STYLES.get(branch.status, "")),
            "" if branch.ms is None else f"{branch.ms:.1f}",
            candidates,
            "" if branch.weight is None else f"{branch.weight:g}",
            "" if branch.attempt is None else str(branch.attempt),
            Text(why, "yellow"),
        )
    return table


def hits_table(hits: Sequence[HitRow]) -> Table:
    """Rank, document, fused score, and the rank and score in each branch, where the answer included them."""
    table = plain_table(">", "document", ">score", "found by")
    for hit in hits:
        scores: Mapping[str, Mapping[str, Any]] = hit.explanation.get("branches") or {}
        found_by = [
            f"{name} #{scores[name]['rank']}{_score(scores[name].get('score'))}" if name in scores else name
            for name in hit.found_by or scores
        ]
        score = "" if hit.score is None else f"{hit.score:.5f}"
        table.add_row(Text(str(hit.rank), "bold"), hit.document_id, Text(score, "cyan"), ", ".join(found_by))
    return table


def _score(score: float | None) -> str:
    return "" if score is None else f" ({score:.3f})"


def _question_line(question: QuestionRow) -> Text:
    facts = [question.status, "from the cache" if question.cached else None]
    if not question.hits:
        facts.append("no hits")
    return Text.assemble(
        (UNKEPT if question.text is None else question.text, "bold"),
        ("  " + " · ".join(filter(None, facts)), "dim"),
    )
