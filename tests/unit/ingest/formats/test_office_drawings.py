"""Charts and diagrams of Word and PowerPoint files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from docx import Document
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from pptx import Presentation
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from tests.support.reading import document_of

_Categories: Any = CategoryChartData  # python-pptx gives it no types
_Points: Any = XyChartData
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_CHART = f"""<c:chart xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" xmlns:r="{_RELATIONS}" r:id="{{}}"/>"""
_SMART_ART = f"""<d:relIds xmlns:d="{_DIAGRAM}" xmlns:r="{_RELATIONS}" r:dm="{{}}"/>"""


def lines_of_slide(path: Path, data: Any, change: Callable[[Any], None] = lambda chart: None) -> list[str]:
    """What is read of a slide with one chart."""
    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[6])
    kind = XL_CHART_TYPE.XY_SCATTER if isinstance(data, XyChartData) else XL_CHART_TYPE.COLUMN_CLUSTERED
    change(slide.shapes.add_chart(kind, *[Inches(1)] * 4, data).chart)
    show.save(str(path / "a.pptx"))
    return document_of(path / "a.pptx").text.removeprefix("## Slide 1\n\n").splitlines()


def series(labels: list[Any], form: str = "General", **values: list[float | None]) -> Any:
    data = _Categories(number_format=form)
    data.categories = labels
    for name, numbers in values.items():
        data.add_series(name, numbers)
    return data


def word_file(path: Path, element: str, content: bytes, *, in_a_table: bool = False) -> str:
    """What is read of a Word file with one drawing, whose part has the content."""
    document = Document()
    part = Part(PackURI("/word/drawing.xml"), "application/xml", content, document.part.package)
    relation = document.part.relate_to(part, f"{_RELATIONS}/drawing")
    run = f"<w:p {_W}><w:r><w:t>Before</w:t><w:drawing>{element.format(relation)}</w:drawing></w:r></w:p>"
    if in_a_table:
        document.add_table(1, 1).cell(0, 0)._tc.append(parse_xml(run))
    else:
        document.element.body.append(parse_xml(run))
    document.save(str(path / "a.docx"))
    return document_of(path / "a.docx").text


def test_a_chart_reads_as_its_titles_and_a_line_for_each_label(tmp_path: Path) -> None:
    def with_titles(chart: Any) -> None:
        chart.has_title = chart.value_axis.has_title = True
        chart.chart_title.text_frame.text = "Boats\nin harbours"
        chart.value_axis.axis_title.text_frame.text = "Number"

    data = series(["North", "South"], Old=[3, 4], New=[5, None])
    assert lines_of_slide(tmp_path, data, with_titles) == [
        "Boats in harbours",
        "Number",
        "North | Old: 3 | New: 5",
        "South | Old: 4",
    ]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (series(["Loan"], "0.0%", Rate=[0.153]), "Loan | Rate: 15.3%"),
        (series(["Rent"], '"$"#,##0.00', Sum=[1234.5]), "Rent | Sum: $1234.5"),
        (series([date(2024, 2, 1)], Rent=[7]), "2024-02-01 | Rent: 7"),
        (series(["007"], Films=[1]), "007 | Films: 1"),
    ],
)
def test_values_of_a_chart_read_as_their_number_formats_show_them(
    tmp_path: Path, data: Any, line: str
) -> None:
    assert lines_of_slide(tmp_path, data) == [line]


def test_the_number_format_of_data_labels_goes_before_that_of_the_values(tmp_path: Path) -> None:
    def with_labels(chart: Any) -> None:
        chart.plots[0].has_data_labels = True
        chart.plots[0].data_labels.number_format = "0%"
        chart.plots[0].data_labels.number_format_is_linked = False

    assert lines_of_slide(tmp_path, series(["Yes"], Votes=[0.75]), with_labels) == ["Yes | Votes: 75%"]


def test_labels_of_a_chart_in_levels_are_whole_at_each_value(tmp_path: Path) -> None:
    data = _Categories()
    for country, cities in {"Italy": ["Rome", "Pisa"], "Norway": ["Oslo"]}.items():
        category = data.add_category(country)
        for city in cities:
            category.add_sub_category(city)
    data.add_series("Boats", [1, 2, 3])
    assert lines_of_slide(tmp_path, data) == [
        "Italy Rome | Boats: 1",
        "Italy Pisa | Boats: 2",
        "Norway Oslo | Boats: 3",
    ]


def test_points_of_a_scatter_chart_have_both_of_their_values(tmp_path: Path) -> None:
    data = _Points()
    for name, x, y in (("A", 1, 2.5), ("B", 5, 6)):
        data.add_series(name).add_data_point(x, y)
    assert lines_of_slide(tmp_path, data) == ["1 | A: 2.5", "5 | B: 6"]


def test_a_curve_of_many_points_has_its_name_and_no_values(tmp_path: Path) -> None:
    data = series([str(number) for number in range(101)], Depth=[1.0] * 101, Wind=[2.0] * 101)
    assert lines_of_slide(tmp_path, data) == ["Depth | Wind"]


def test_a_chart_of_the_kinds_of_office_2016_is_read(tmp_path: Path) -> None:
    content = b"""<x:chartSpace xmlns:x="http://schemas.microsoft.com/office/drawing/2014/chartex"><x:chartData><x:data id="0">
        <x:strDim type="cat"><x:lvl><x:pt idx="0">Rent</x:pt><x:pt idx="1">Heat</x:pt></x:lvl></x:strDim>
        <x:numDim type="val"><x:lvl formatCode="0%"><x:pt idx="0">0.7</x:pt><x:pt idx="1">0.3</x:pt></x:lvl></x:numDim>
        </x:data></x:chartData><x:chart><x:title><x:tx><x:txData><x:v>Costs</x:v></x:txData></x:tx></x:title><x:plotArea>
        <x:plotAreaRegion><x:series layoutId="waterfall"><x:tx><x:txData><x:v>2024</x:v></x:txData></x:tx><x:dataId val="0"/>
        </x:series></x:plotAreaRegion></x:plotArea></x:chart></x:chartSpace>"""
    assert word_file(tmp_path, _CHART, content) == ("Before\n\nCosts\nRent | 2024: 70%\nHeat | 2024: 30%")


def diagram(points: str, lines: str) -> bytes:
    return (
        f'<d:dataModel xmlns:d="{_DIAGRAM}" xmlns:a="{_DRAWING}"><d:ptLst>{points}</d:ptLst>'
        f"<d:cxnLst>{lines}</d:cxnLst></d:dataModel>"
    ).encode()


_POINT = '<d:pt modelId="{0}" type="{1}"><d:t><a:p><a:r><a:t>{2}</a:t></a:r></a:p></d:t></d:pt>'
_LINE = '<d:cxn srcId="{}" destId="{}" srcOrd="{}"/>'
_ORGANISATION = diagram(
    "".join(
        _POINT.format(*point)
        for point in [
            ("r", "doc", ""),
            ("k", "node", "Keeper"),
            ("b", "node", "Master"),
            ("h", "asst", "Helper"),
            ("s", "sibTrans", "arrow"),
            ("e", "node", "Crew"),
            ("c", "node", "Clerk"),
        ]
    ),
    "".join(
        _LINE.format(*line)
        for line in [("b", "k", 1), ("b", "h", 0), ("k", "c", 0), ("r", "e", 1), ("r", "b", 0)]
    ),
)


@pytest.mark.parametrize("in_a_table", [False, True])
def test_a_diagram_reads_as_its_texts_in_their_order_each_before_those_below_it(
    tmp_path: Path, *, in_a_table: bool
) -> None:
    text = word_file(tmp_path, _SMART_ART, _ORGANISATION, in_a_table=in_a_table)
    assert text.split() == ["Before", "Master", "Helper", "Keeper", "Clerk", "Crew"]


def test_a_diagram_whose_lines_go_in_a_circle_is_read(tmp_path: Path) -> None:
    points = _POINT.format("a", "node", "One") + _POINT.format("b", "node", "Two")
    content = diagram(points, _LINE.format("a", "b", 0) + _LINE.format("b", "a", 0))
    assert word_file(tmp_path, _SMART_ART, content) == "Before\n\nOne\nTwo"
