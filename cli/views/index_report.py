"""Shows the report of an indexing run on a terminal and in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.terminal import Text, counted, stderr
from config.visible_text import visible_line
from models.left_out import LeftOut
from tasks.indexing.report import skipped_to_wire

if TYPE_CHECKING:
    from tasks.indexing.report import IndexReport

SHOWN = 10
_COUNTS = ("added", "replaced", "unchanged", "deleted")


def report_fields(report: IndexReport) -> dict[str, Any]:
    return {
        **{name: getattr(report, name) for name in (*_COUNTS, "spared", "gone", "passages", "generation")},
        "reasons": report.reasons,
        "skipped": [skipped_to_wire(one) for one in report.skipped],
        **({"unwritten": report.unwritten} if report.unwritten else {}),
    }


def report_line(report: IndexReport, namespace: str, source: str, took_s: float) -> Text:
    counts = [f"{count:,} {name}" for name in _COUNTS if (count := getattr(report, name)) or name == "added"]
    facts = [counted(report.passages, "passage"), f"generation {report.generation}", f"{took_s:.1f} s"]
    if report.reasons:
        facts.append("left out: " + ", ".join(f"{count:,} {name}" for name, count in report.reasons.items()))
    return Text.assemble(
        (namespace, "bold"), f" ← {source}: {', '.join(counts)}", (" · " + " · ".join(facts), "dim")
    )


def show_left_out(report: IndexReport, where: str) -> None:
    """What is not indexed or not written, by reason, on stderr; hidden names are only counted.  `where` names the files."""
    for reason in LeftOut:
        names = [str(one) for one in report.skipped if one.reason is reason]
        heading = f"{reason} ({len(names):,}): {reason.meaning}"
        _list(
            heading,
            names,
            shown=0 if reason is LeftOut.HIDDEN else SHOWN,
            style="yellow" if reason.is_fault else "dim",
        )
    _list(
        "not in every store yet; the next run, or `chorale verify`, writes them again:",
        [f"{document_id}: {why}" for document_id, why in report.unwritten.items()],
    )
    if report.spared:
        stderr().print(
            f"not deleted, since unread files may contain them: {counted(report.spared, 'document')}"
        )
    if report.gone:
        are, stay, them = ("is", "stays", "it") if report.gone == 1 else ("are", "stay", "them")
        stderr().print(
            f"{counted(report.gone, 'document')} of earlier runs {are} not in {where} any more and {stay} searchable; "
            f"--prune deletes {them}",
            soft_wrap=True,
        )


def _list(heading: str, lines: list[str], *, shown: int = SHOWN, style: str = "yellow") -> None:
    if not lines:
        return
    console = stderr()
    console.print(Text(heading, style), soft_wrap=True)
    for line in lines[:shown]:
        console.print(Text(f"  {visible_line(line)}"), soft_wrap=True)
    if shown and len(lines) > shown:
        console.print(f"  … and {len(lines) - shown:,} more; --json lists them all")
