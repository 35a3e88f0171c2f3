"""Pictures of figures with their intervals, as PNG or as an HTML file that needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from models.errors import ServiceError, WrongDeclaration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#3b6ea5", "#c9822b", "#5a9a5a", "#8a6bb0")
_SUFFIXES = (".png", ".html")


@dataclass(frozen=True, slots=True)
class Point:
    """A value, with the ends of its interval if it has one."""

    value: float
    low: float | None = None
    high: float | None = None
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """A value for each of the picture's rows; a row without one is left empty."""

    title: str
    points: Sequence[Point | None]
    zero: float | None = None
    """Where a line stands that values are compared with; None: bars from 0."""


@dataclass(frozen=True, slots=True)
class Picture:
    title: str
    rows: Sequence[str]
    panels: Sequence[Panel]


def check_picture_file(file: Path) -> None:
    """Raises WrongDeclaration for a file that is no picture, and ServiceError without matplotlib."""
    if file.suffix.lower() not in _SUFFIXES:
        raise WrongDeclaration(f"--plot: {file} is neither .png nor .html")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ServiceError(
            "`matplotlib` is not installed; `make plots` or `pip install matplotlib` installs it"
        ) from None


def draw(picture: Picture, file: Path) -> None:
    """Write the picture; the suffix of `file` says as what.  Raises OSError."""
    figure = _figure(picture)
    if file.suffix.lower() == ".png":
        drawn = BytesIO()
        figure.savefig(drawn, format="png", dpi=150, metadata={"Software": None})
        file.write_bytes(drawn.getvalue())
    else:
        file.write_text(_page(picture, figure), encoding="utf-8")


def _figure(picture: Picture) -> Figure:
    from matplotlib.figure import Figure

    height, places = 1.2 + 0.28 * len(picture.rows), range(len(picture.rows))
    figure = Figure(figsize=(4 + 3.2 * len(picture.panels), height), layout="constrained")
    figure.suptitle(_plain(picture.title), fontsize=11)
    for at, panel in enumerate(picture.panels):
        axes = figure.add_subplot(1, len(picture.panels), at + 1)
        axes.set_title(_plain(panel.title), fontsize=9)
        axes.set_yticks(
            list(places), [_plain(row) for row in picture.rows] if at == 0 else [""] * len(places)
        )
        axes.tick_params(labelsize=8)
        axes.set_ylim(len(places) - 0.5, -0.5)
        axes.grid(axis="x", alpha=0.3)
        if panel.zero is not None:
            axes.axvline(panel.zero, color="#888888", linewidth=1)
        for place, point in zip(places, panel.points, strict=True):
            if point is None:
                continue
            colour = _COLOURS[1] if point.is_marked else _COLOURS[0]
            if panel.zero is None:
                axes.barh(place, point.value, color=_COLOURS[at % len(_COLOURS)], height=0.6)
                axes.annotate(
                    f"{point.value:.3f}", (point.value, place), (3, 0), textcoords="offset points",
                    va="center", fontsize=7,
                )  # fmt: skip
            else:
                axes.plot(point.value, place, "o", color=colour, markersize=4)
            if point.low is not None and point.high is not None:
                axes.plot([point.low, point.high], [place, place], color=colour, linewidth=1.5)
        axes.margins(x=0.12)
    return figure


def _plain(text: str) -> str:
    """Without what matplotlib takes for mathematics."""
    return text.replace("$", r"\$")


def _page(picture: Picture, figure: Figure) -> str:
    import matplotlib

    drawn = StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "chorale"}):  # the same picture has the same ids
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    svg = drawn.getvalue()
    head = "".join(f"<th>{escape(panel.title)}</th>" for panel in picture.panels)
    body = "".join(
        f"<tr><td>{escape(row)}</td>" + "".join(f"<td>{_cell(panel.points[at])}</td>" for panel in picture.panels)
        + "</tr>\n"
        for at, row in enumerate(picture.rows)
    )  # fmt: skip
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{escape(picture.title)}</title>
<style>body {{ font: 14px sans-serif; margin: 2em }} svg {{ max-width: 100%; height: auto }}
td, th {{ padding: 2px 12px; text-align: left }} tr:nth-child(even) {{ background: #f2f2f2 }}</style></head>
<body><h1>{escape(picture.title)}</h1>
{svg[svg.index("<svg") :]}
<table><thead><tr><th></th>{head}</tr></thead>
<tbody>
{body}</tbody></table></body></html>
"""


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    ends = "" if point.low is None or point.high is None else f" [{point.low:+.4f}, {point.high:+.4f}]"
    return f"{point.value:{'+' if ends else ''}.4f}{ends}"
