"""Shows the report of an indexing run on a terminal and in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.terminal import Text, counted, stderr
from config.visible_text import visible_line
from tasks.indexing.report import skipped_to_wire

if TYPE_CHECKING:
    from tasks.indexing.report import IndexReport

SHOWN_FAULTS = 20
_COUNTS = ("added", "replaced", "unchanged", "deleted")


def report_fields(report: IndexReport) -> dict[str, Any]:
    return {
        **{name: getattr(report, name) for name in (*_COUNTS, "spared", "passages", "generation")},
        "skipped": [skipped_to_wire(one) for one in report.skipped],
        **({"unwritten": report.unwritten} if report.unwritten else {}),
    }


def report_line(report: IndexReport, namespace: str, source: str, took_s: float) -> Text:
    counts = [f"{count:,} {name}" for name in _COUNTS if (count := getattr(report, name)) or name == "added"]
    ignored = sum(not one.is_fault for one in report.skipped)
    facts = [counted(report.passages, "passage"), f"generation {report.generation}", f"{took_s:.1f} s"]
    if ignored:
        facts.append(f"{counted(ignored, 'file')} not for indexing")
    return Text.assemble(
        (namespace, "bold"), f" ← {source}: {', '.join(counts)}", (" · " + " · ".join(facts), "dim")
    )


def show_faults(report: IndexReport) -> None:
    """The documents that could not be read or written, on stderr."""
    _list("this could not be read:", [str(one) for one in report.skipped if one.is_fault])
    _list(
        "not in every store yet; the next run, or `chorale verify`, writes them again:",
        [f"{document_id}: {why}" for document_id, why in report.unwritten.items()],
    )
    if report.spared:
        stderr().print(
            f"not pruned, since unread files may contain them: {counted(report.spared, 'document')}"
        )


def _list(heading: str, lines: list[str]) -> None:
    if not lines:
        return
    console = stderr()
    console.print(Text(heading, "yellow"))
    for line in lines[:SHOWN_FAULTS]:
        console.print(Text(f"  {visible_line(line)}"), soft_wrap=True)
    if len(lines) > SHOWN_FAULTS:
        console.print(f"  … and {len(lines) - SHOWN_FAULTS:,} more; --json lists them all")
