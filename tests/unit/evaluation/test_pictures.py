"""Pictures of figures, as PNG and as HTML."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from evaluation.pictures import Panel, Picture, Point, check_picture_file, draw
from models.errors import WrongDeclaration

PICTURE = Picture(
    "cost in $ & <b>",
    ["rrf", "a_b $x"],
    [
        Panel("nDCG@10", [Point(0.7), Point(0.72)]),
        Panel("gain", [None, Point(0.02, -0.01, 0.05, is_marked=True)], zero=0),
    ],
)


@pytest.mark.slow  # a new machine lists its fonts first
def test_an_html_file_shows_picture_and_table_and_needs_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "plot.html"
    draw(PICTURE, file)
    page = file.read_text()
    draw(PICTURE, file)
    assert file.read_text() == page
    svg = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    ElementTree.fromstring(svg)
    assert "cost in $ &amp; &lt;b&gt;" in page
    assert "<td>+0.0200 [-0.0100, +0.0500]</td>" in page
    rest = page.replace(svg, "")
    assert not [word for word in ("src=", "href=", "<script") if word in rest]
    assert "<script" not in svg


@pytest.mark.slow
def test_a_png_file_is_a_png(tmp_path: Path) -> None:
    file = tmp_path / "plot.PNG"
    draw(PICTURE, file)
    assert file.read_bytes().startswith(b"\x89PNG")


def test_other_files_are_refused() -> None:
    with pytest.raises(WrongDeclaration, match=r"neither \.png nor \.html"):
        check_picture_file(Path("plot.pdf"))
