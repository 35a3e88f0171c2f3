"""A hit of a PDF has the pages on which a person finds its passage."""

from __future__ import annotations

from pathlib import Path

from tests.integration.cli.commands.printed import document
from tests.support.command_line import Run
from tests.support.not_indexed import with_page


def test_a_hit_of_a_pdf_that_workers_index_has_the_page_of_its_passage(chorale: Run, tmp_path: Path) -> None:
    writer = with_page("Roses are cut in spring. " * 60)
    writer.add_page(with_page("Herons stand in the pond. " * 60).pages[0])
    writer.write(tmp_path / "garden.pdf")
    (tmp_path / "notes.txt").write_text("Frogs like the rain.")
    report = document(
        chorale("index", str(tmp_path), "-n", "pages", "--source=s", "--where=workers", "--json")
    )
    assert report["added"] == 2
    answer = document(chorale("search", "herons in the pond", "-n", "pages", "--json"))
    (question,) = answer["questions"]
    pages = {hit["document_id"]: hit.get("pages") for hit in question["hits"]}
    assert pages == {"s/garden.pdf": "2", "s/notes.txt": None}
