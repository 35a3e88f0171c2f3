"""The report of `chorale index` on a terminal: what was written, and what is not indexed, by reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.terminal import Text, counted, stderr
from config.visible_text import visible_line
from models.not_indexed import NotIndexed

if TYPE_CHECKING:
    from tasks.indexing.indexing_run import IndexReport

MOST_LISTED = 10
_COUNTS = ("added", "replaced", "unchanged", "deleted")


def report_fields(report: IndexReport) -> dict[str, Any]:
    """What `chorale index --json` prints of the report."""
    from tasks.indexing.indexing_run import skipped_to_wire

    return {
        **{name: getattr(report, name) for name in (*_COUNTS, "spared", "gone", "passages", "generation")},
        "reasons": report.reasons,
        "skipped": [skipped_to_wire(item) for item in report.skipped],
        **({"unwritten": report.unwritten} if report.unwritten else {}),
    }


def report_line(
    report: IndexReport, namespace: str, source: str, language: str | None, took_s: float
) -> Text:
    counts = [f"{count:,} {name}" for name in _COUNTS if (count := getattr(report, name)) or name == "added"]
    facts = [
        counted(report.passages, "passage"),
        *([f"language {language}"] if language else []),
        f"generation {report.generation}",
        f"{took_s:.1f} s",
    ]
    if report.reasons:
        facts.append("left out: " + ", ".join(f"{count:,} {name}" for name, count in report.reasons.items()))
    return Text.assemble(
        (namespace, "bold"), f" ← {source}: {', '.join(counts)}", (" · " + " · ".join(facts), "dim")
    )


def show_omitted(report: IndexReport, where: str) -> None:
    """What is not indexed or not written, by reason, on stderr; hidden names are only counted.  `where` names the files."""
    for reason in NotIndexed:
        names = [str(item) for item in report.skipped if item.reason is reason]
        heading = f"{reason} ({len(names):,}): {reason.meaning}"
        _list(
            heading,
            names,
            limit=0 if reason is NotIndexed.HIDDEN else MOST_LISTED,
            style="yellow" if reason.is_fault else "dim",
        )
    _list(
        "not in every store yet; the next run, or `chorale verify`, writes them again:",
        [f"{document_id}: {why}" for document_id, why in report.unwritten.items()],
    )
    if report.spared:
        stderr().print(
            f"not deleted, since unread files may contain them, or nothing was read: {counted(report.spared, 'document')}",
            soft_wrap=True,
        )
    if report.gone:
        are, stay, them = ("is", "stays", "it") if report.gone == 1 else ("are", "stay", "them")
        stderr().print(
            f"{counted(report.gone, 'document')} of earlier runs {are} not in {where} any more and {stay} searchable; "
            f"--prune deletes {them}",
            soft_wrap=True,
        )


def _list(heading: str, lines: list[str], *, limit: int = MOST_LISTED, style: str = "yellow") -> None:
    if not lines:
        return
    console = stderr()
    console.print(Text(heading, style), soft_wrap=True)
    for line in lines[:limit]:
        console.print(Text(f"  {visible_line(line)}"), soft_wrap=True)
    if limit and len(lines) > limit:
        console.print(f"  … and {len(lines) - limit:,} more; --json lists them all")
