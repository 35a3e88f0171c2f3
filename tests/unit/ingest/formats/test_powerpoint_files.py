"""PowerPoint files, made by the library that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pptx import Presentation
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls
from pptx.util import Inches

from models.not_indexed import NotIndexed
from tests.support.reading import document_of, with_note


def test_a_slide_is_a_section_with_its_number_tables_and_notes(tmp_path: Path) -> None:
    show = Presentation()
    first = show.slides.add_slide(show.slide_layouts[1])
    assert first.shapes.title is not None
    first.shapes.title.text = "Tea"
    first.placeholders[1].text_frame.text = "Green\nBlack"
    assert first.notes_slide.notes_text_frame is not None
    first.notes_slide.notes_text_frame.text = "Show the pot."
    second = show.slides.add_slide(show.slide_layouts[6])
    table = second.shapes.add_table(2, 2, *[Inches(1)] * 4).table
    for number, text in enumerate(("Sort", "Minutes", "Green", "2")):
        table.cell(*divmod(number, 2)).text = text
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(*[Inches(1)] * 4).text_frame.text = "In a group"
    show.save(str(tmp_path / "a.pptx"))
    read = document_of(tmp_path / "a.pptx")
    assert read.title == "Tea"
    assert read.text == (
        "## Slide 1: Tea\n\nGreen\nBlack\n\nNotes: Show the pot.\n\n"
        "## Slide 2\n\nSort | Minutes\nGreen | 2\n\nIn a group"
    )


@pytest.mark.parametrize(
    "places",
    [
        {"e": (1, 5, 1), "b": (5, 1.1, 1), "a": (1, 1, 1), "d": (5, 3, 1), "c": (1, 3, 1)},
        {"c": (5, 3, 1), "b": (5, 1, 1), "a": (1, 1, 5)},
    ],
    ids=["rows", "a column beside a tall box"],
)
def test_boxes_of_a_slide_are_read_from_top_to_bottom_and_from_left_to_right(
    tmp_path: Path, places: dict[str, tuple[float, float, float]]
) -> None:
    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[6])
    for text, (left, top, height) in places.items():
        box = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(3), Inches(height))
        box.text_frame.text = text
    show.save(str(tmp_path / "a.pptx"))
    assert document_of(tmp_path / "a.pptx").text == "\n\n".join(["## Slide 1", *sorted(places)])


def test_boxes_for_newer_programs_are_read_and_ink_is_not(tmp_path: Path) -> None:
    """PowerPoint puts a box with a formula among alternatives: the box, and its picture for older programs."""
    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[6])
    box = slide.shapes.add_textbox(*[Inches(1)] * 4)
    box.text_frame.text = "The area is "
    box.text_frame.paragraphs[0]._p.append(parse_xml(f"<m:oMath {_MATH}><m:r><m:t>πr²</m:t></m:r></m:oMath>"))
    names = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    ink = f"<mc:Choice><p:contentPart {nsdecls('p')}/></mc:Choice>"
    tree = slide.shapes._spTree
    for choice in ("<mc:Choice/>", ink):
        tree.append(parse_xml(f"<mc:AlternateContent {names}>{choice}<mc:Fallback/></mc:AlternateContent>"))
    tree[-2][0].append(box._element)
    show.save(str(tmp_path / "a.pptx"))
    assert document_of(tmp_path / "a.pptx").text == "## Slide 1\n\nThe area is πr²"


_MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


@pytest.mark.parametrize(
    ("own", "slides", "title"),
    [
        ("Title with image", ["Harbour rules", "Boats"], "Harbour rules"),
        ("Rules of 2024", ["", "Boats"], "Rules of 2024"),
        ("PowerPoint-Präsentation", ["", "Boats"], "Boats"),
    ],
)
def test_the_title_of_the_first_slide_goes_before_that_of_the_file(
    tmp_path: Path, own: str, slides: list[str], title: str
) -> None:
    show = Presentation()
    show.core_properties.title = own
    for text in slides:
        slide = show.slides.add_slide(show.slide_layouts[1])
        assert slide.shapes.title is not None
        slide.shapes.title.text = text
    show.save(str(tmp_path / "a.pptx"))
    assert document_of(tmp_path / "a.pptx").title == title


def test_hidden_slides_and_boxes_are_left_out_unless_somebody_asks_for_them(tmp_path: Path) -> None:
    show = Presentation()
    for number in range(3):
        slide = show.slides.add_slide(show.slide_layouts[6])
        box = slide.shapes.add_textbox(*[Inches(1)] * 4)
        box.text_frame.text = f"Text {number + 1}"
        if number == 1:
            slide._element.set("show", "0")
        if number == 2:
            box._element.nvSpPr.cNvPr.set("hidden", "1")
    show.save(str(path := tmp_path / "a.pptx"))
    read, note = with_note(path)
    assert (note.reason, read.text) == (NotIndexed.HIDDEN_TEXT, "## Slide 1\n\nText 1\n\n## Slide 3")
    assert note.why == "hidden slides, or boxes on slides: 2, 3; --hidden-text reads it"
    whole = document_of(path, hidden_text=True).text
    assert whole == "## Slide 1\n\nText 1\n\n## Slide 2\n\nText 2\n\n## Slide 3\n\nText 3"
