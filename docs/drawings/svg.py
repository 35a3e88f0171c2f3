"""The few shapes that the drawings are made of."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

INK, MUTED, PAPER = "#1f2937", "#6b7280", "#ffffff"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def page(width: int, height: int, title: str, shapes: Iterable[str]) -> str:
    """A whole SVG file.  The paper is white on dark pages too."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="{FONT}" role="img">\n<title>{escape(title)}</title>\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="{MUTED}"/></marker></defs>\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>\n'
    )
    return head + "\n".join(shapes) + "\n</svg>\n"


def text(x: float, y: float, said: str, *, size: int = 13, fill: str = INK, style: str = "") -> str:
    """Centred on `x`."""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="middle"{style}>{escape(said)}</text>'


def box(
    x: float, y: float, width: float, height: float, title: str, *lines: str, fill: str, edge: str
) -> str:
    """A rounded box with a bold title and small lines below it."""
    middle, top = x + width / 2, y + height / 2 - 8.5 * len(lines) + 5
    return "\n".join(
        [
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" stroke="{edge}"/>',
            text(middle, top, title, size=15, style=' font-weight="600"'),
            *(
                text(middle, top + 17 * number, line, size=12, fill=MUTED)
                for number, line in enumerate(lines, 1)
            ),
        ]
    )


def arrow(
    *points: tuple[float, float], is_dashed: bool = False, colour: str = MUTED, both: bool = False
) -> str:
    """A line through the points with a tip at its end, or at both ends."""
    way = " ".join(f"{x:g},{y:g}" for x, y in points)
    dashes = ' stroke-dasharray="4 4"' if is_dashed else ""
    start = ' marker-start="url(#tip)"' if both else ""
    return (
        f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}{start} '
        'marker-end="url(#tip)"/>'
    )


LOOP_S = 8.0
"""How long a moving picture takes before it begins again."""
MOVING = "<style>.moving{opacity:0}@media (prefers-reduced-motion:reduce){.moving{animation:none!important}}</style>"


def moving(
    *points: tuple[float, float], start_s: float, end_s: float, stays: bool = False, colour: str = MUTED
) -> str:
    """A message on its way through the points between two moments of the loop; it `stays` at the end, or disappears.

    It is invisible where nothing moves: on paper, or for a reader who wants less motion.  The drawing needs `MOVING`.
    """
    way = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    name = "m" + "".join(f"{x:g}_{y:g}_" for x, y in (points[0], points[-1])).replace(".", "")
    start, end = (100 * moment_s / LOOP_S for moment_s in (start_s, end_s))
    return (
        f"<style>@keyframes {name}{{0%,{start:.1f}%{{offset-distance:0%;opacity:0}}{start + 0.1:.1f}%{{opacity:1}}"
        f"{end:.1f}%{{offset-distance:100%;opacity:1}}{end + 0.1:.1f}%,100%{{offset-distance:100%;opacity:{int(stays)}}}}}</style>\n"
        f'<circle class="moving" r="6" fill="{colour}" style="offset-path:path(\'{way}\');'
        f'animation:{name} {LOOP_S:g}s linear infinite"/>'
    )
