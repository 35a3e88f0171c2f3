"""PowerPoint files, made by the library that reads them."""

from __future__ import annotations

from pathlib import Path

from pptx import Presentation
from pptx.util import Inches

from tests.support.office_files import document_of


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
