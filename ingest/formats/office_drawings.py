"""Charts and diagrams (SmartArt) of Office files, whose texts are in parts of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ingest.formats.excel_cells import display_text
from ingest.office import RELATIONS, PartOf, parsed, plain, row

ELEMENTS = ("chart", "relIds")
"""The elements of a drawing that name the part of a chart or diagram."""
_MOST_POINTS = 100
"""A series with more points is a curve: people see its course, and no values."""


def related(relations: Any, read: set[str]) -> PartOf:
    """A function that reads a part, for the relations of python-docx and python-pptx.  `read` gets the names of the parts that were
    read.  Each part is read once, because a small file may name a part thousands of times."""

    def content(name: str) -> bytes | None:
        relation = relations.get(name)
        if relation is None or relation.is_external or relation.target_part.partname in read:
            return None
        read.add(relation.target_part.partname)
        content: bytes = relation.target_part.blob
        return content

    return content


def drawing_text(part_of: PartOf, element: Any, *, has_values: bool = True) -> str:
    """The text of the chart or diagram that one of ELEMENTS names; without `has_values`, of a chart only its titles."""
    for kind, read in (("id", partial(_chart, has_values=has_values)), ("dm", _diagram)):
        if content := part_of(element.get(f"{RELATIONS}{kind}", "")):
            try:
                return "\n".join(filter(None, read(parsed(content))))
            except (ElementTree.ParseError, ValueError):
                return ""  # as Office, which leaves an empty frame
    return ""


def texts_of_shapes(node: Element, part_of: PartOf, *, is_hidden: bool = False) -> Iterator[tuple[str, bool]]:
    """The texts of a sheet's text boxes, diagrams and titles of charts, each with whether it is hidden."""
    for child in node:
        name = child.tag.rpartition("}")[2]
        hidden = is_hidden or any(
            each.get("hidden") in ("1", "true") for each in child.iterfind("./*/{*}cNvPr")
        )
        if name == "txBody":
            yield "\n".join(filter(None, (plain(_words(each)) for each in child.iterfind("{*}p")))), hidden
        elif name in ELEMENTS:
            yield drawing_text(part_of, child, has_values=False), hidden
        elif name != "Fallback":
            yield from texts_of_shapes(child, part_of, is_hidden=hidden)


def _diagram(model: Element) -> Iterator[str]:
    """The texts of a diagram, each before the texts below it."""
    points = {point.get("modelId", ""): point for point in model.iterfind("{*}ptLst/{*}pt")}
    below: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for line in model.iterfind("{*}cxnLst/{*}cxn"):
        if line.get("type", "parOf") == "parOf":
            below[line.get("srcId", "")].append((int(line.get("srcOrd", 0)), line.get("destId", "")))
    pending = [*reversed(points), *(name for name in points if points[name].get("type") == "doc")]
    while pending:
        point = points.pop(name := pending.pop(), None)
        if point is not None and point.get("type", "node") in ("doc", "node", "asst"):
            yield plain(_words(point.find("{*}t")))
            pending += [child for _, child in sorted(below[name], reverse=True)]


class _Series(NamedTuple):
    name: str
    labels: dict[int, str]
    """What stands below or beside each point."""
    values: dict[int, str]


def _chart(space: Element, *, has_values: bool) -> Iterator[str]:
    """The titles of the chart and its axes, then a line for each label, with the values of all series that have it."""
    for title in space.iterfind(".//{*}title"):
        yield plain(_words(title))
    series = _series(space) if has_values else ()
    for labels, same in groupby(series, key=lambda one: one.labels):
        group = [*same]
        numbers = sorted({*labels, *(number for one in group for number in one.values)})
        if len(numbers) > _MOST_POINTS:
            yield row([one.name for one in group])
            continue
        for number in numbers:
            values = [(one.name, one.values[number]) for one in group if number in one.values]
            named = (f"{name}: {value}" if name else value for name, value in values)
            yield row([*filter(None, [labels.get(number, "")]), *named])


def _series(space: Element) -> Iterator[_Series]:
    axes = [*space.iterfind(".//{*}valAx/{*}numFmt")]
    for plot in space.iterfind(".//{*}plotArea/*"):
        for one in plot.iterfind("{*}ser"):
            forms = [form for each in (one, plot) for form in each.iterfind("{*}dLbls/{*}numFmt")]
            forms += axes if len(axes) == 1 else []
            own = [form.get("formatCode", "") for form in forms if form.get("sourceLinked") in ("0", "false")]
            labels = _points(one, "{*}cat", "{*}xVal")
            values = _points(one, "{*}val", "{*}yVal", form=next(iter(own), ""))
            yield _Series(_words(one.find("{*}tx")), labels, values)
    data = {one.get("id"): one for one in space.iterfind("{*}chartData/{*}data")}
    for one in space.iterfind(".//{*}series"):  # the charts that came with Office 2016
        number = one.find("{*}dataId")
        own_data = data.get(number.get("val")) if number is not None else None
        if own_data is not None:
            labels, values = _points(own_data, "{*}strDim"), _points(own_data, "{*}numDim")
            yield _Series(_words(one.find("{*}tx")), labels, values)


def _points(series: Element, *kinds: str, form: str = "") -> dict[int, str]:
    """The labels or values that the file has saved, by their numbers."""
    data = next((node for kind in kinds if (node := series.find(kind)) is not None), None)
    if data is None:
        return {}
    form = form or data.findtext(".//{*}formatCode", "")
    levels = [
        {
            int(each.get("idx", 0)): _value(each, form or level.get("formatCode", ""))
            for each in level.iterfind(".//{*}pt")
        }
        for level in [*data.iterfind(".//{*}lvl")] or [data]
    ]
    points: dict[int, str] = {}
    last: dict[int, str] = {}
    for number in sorted({number for level in levels for number in level}):
        # The first level is the innermost.  A label of the others is that of all points up to their next label.
        last = {
            depth: level.get(number, last.get(depth, "") if depth else "")
            for depth, level in enumerate(levels)
        }
        points[number] = " ".join(filter(None, reversed(last.values())))
    return points


def _value(point: Element, form: str) -> str:
    from openpyxl.styles.numbers import is_date_format, is_timedelta_format
    from openpyxl.utils.datetime import from_excel

    text = point.findtext("{*}v", point.text or "").strip()
    form = point.get("formatCode", form)
    try:
        number = float(text)
        if form and is_date_format(form):
            return display_text(from_excel(number, timedelta=is_timedelta_format(form)), form)
        return display_text(number, form) if form else text
    except (ValueError, OverflowError):
        return text


def _words(node: Element | None) -> str:
    if node is None:
        return ""
    parts = [*node.iterfind(".//{*}p"), *node.iterfind(".//{*}v")] or [node]
    texts = (
        "".join(" " if one.tag.endswith("}br") else one.text or "" for one in part.iter()) for part in parts
    )
    return " ".join(" ".join(texts).split())
