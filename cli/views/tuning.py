"""The result of `chorale tune` on a terminal and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.terminal import Text, plain_table, stdout
from evaluation.pictures import Panel, Picture, Point, draw

if TYPE_CHECKING:
    from evaluation.paired import Gain
    from evaluation.tuning import Row, Tuning

_METHODS_SHOWN = 6


def _shown(found: Tuning) -> Sequence[Row]:
    """Configurations, the best methods, and the tuned rows."""
    methods = [row for row in found.rows if row.name.startswith("fusion=")]
    best = sorted(methods, key=lambda row: -row.mean)[:_METHODS_SHOWN]
    return [row for row in found.rows if row in best or not row.name.startswith("fusion=")]


def interval(gain: Gain) -> str:
    return f"{gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"


def show_tuning(found: Tuning, label: str, written: Path | None) -> None:
    """Print table, verdict, and how the written file is used."""
    console = stdout()
    types = ", ".join(f"{count} {name}" for name, count in found.types.items())
    console.print(
        Text(
            f"{label}: {found.questions:,} judged questions ({types}); {found.tried:,} configurations tried\n"
        )
    )
    table = plain_table("", ">nDCG@10", f">gain over {found.default}", ">p", ">wins", ">losses")
    for row in _shown(found):
        name = f"{row.name} (held out)" if row.is_held_out else row.name
        gain = row.gain
        table.add_row(
            Text(name), f"{row.mean:.4f}", interval(gain), f"{gain.p:.3f}", str(gain.wins), str(gain.losses)
        )
    console.print(table)
    console.print()
    for line in [*_verdict(found), *_use(found, written)]:
        console.print(Text(line), soft_wrap=True)


def _verdict(found: Tuning) -> list[str]:
    name, gain = found.configuration.name, found.over_best
    said = f"{name} over the best existing configuration ({found.best_existing}), held out: {interval(gain)}, p {gain.p:.3f}"
    lines = [f"Better. {said}"] if found.is_better else [f"Not distinguishable. {said}; nothing is written."]
    if found.ends_at is not None:
        lines.append(f"With all questions the search chooses {found.ends_at} itself.")
    existing = found.row(found.best_existing)
    if found.best_existing != found.default and existing.gain.is_better and not found.is_better:
        lines.append(f"{existing.name} is better than the default {found.default}: {interval(existing.gain)}")
    if found.by_type is None:
        lines.append("Weights by type of question: no type has enough questions, or weights of its own.")
    else:
        verdict = "better" if found.by_type.is_better else "not distinguishable, and left out"
        lines.append(f"Weights by type of question: {interval(found.by_type)}: {verdict}.")
    if found.deeper.is_distinguishable:
        lines.append(f"Requests with `depth` 200 instead of 100: {interval(found.deeper)}")
    return lines


def _use(found: Tuning, written: Path | None) -> list[str]:
    if written is None:
        return []
    name = found.configuration.name
    return [
        f"Written: {written}",
        f"Use it:  CHORALE_PIPELINE_FILE={written} chorale up",
        f'         chorale search --configuration {name} "…"   (or default_configuration = "{name}" in the file)',
    ]


def draw_tuning(found: Tuning, label: str, file: Path) -> None:
    """The gains over the default with their intervals, and the means."""
    rows = _shown(found)
    names = [f"{row.name} (held out)" if row.is_held_out else row.name for row in rows]
    gains = [Point(row.gain.mean, row.gain.low, row.gain.high, row.is_held_out) for row in rows]
    means = [Point(row.mean) for row in rows]
    panels = [Panel("nDCG@10", means), Panel(f"gain over {found.default}, 95 % interval", gains, zero=0)]
    draw(Picture(f"{label}: {found.questions:,} judged questions", names, panels), file)
