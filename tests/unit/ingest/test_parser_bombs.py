"""Small files that take a parser minutes or gigabytes are given up at a limit, and the others are read."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import docx
import pptx
import pytest

import ingest.parser_process
import ingest.read
from ingest.parser_process import ParserProcess
from ingest.raw_documents import Fault, ReadLimits, ReadOptions, Record
from models.errors import ServiceError
from tests.support.office_files import workbook
from tests.support.page_tree import page_tree
from tests.support.reading import document_of, read_all, skipped, written

LIMITS = ReadLimits(time_s=1, memory_mb=300, output_mb=2)
TIME, MEMORY, OUTPUT = "more than 1 s", "more than 300 MB of memory", "more than 2 MB"


def substitutions() -> bytes:
    """Each of ten names stands for eight times the next one: 500 bytes of reStructuredText for 8^9 words."""
    lines = [f".. |{one}| replace:: {' '.join([f'|{after}|'] * 8)}" for one, after in pairwise("abcdefghij")]
    return "\n".join([*lines, ".. |j| replace:: x", "", "|a|", ""]).encode()


def open_cell() -> bytes:
    return b'text\n"' + b"x" * 30_000_000


SLOW = pytest.mark.slow
"""For a bomb that takes the whole second."""

BOMBS: list[Any] = [
    pytest.param("a.rst", substitutions, (TIME, MEMORY), id="substitutions in substitutions"),
    pytest.param(
        "a.html", lambda: b"<p>a" * 10_000, (TIME, "RecursionError"), id="paragraphs that never end"
    ),
    pytest.param("a.html", lambda: b"&" * 5_000_000, (TIME,), marks=SLOW, id="five million ampersands"),
    pytest.param(
        "a.md", lambda: b"# a\n" * 500_000, (TIME, OUTPUT), marks=SLOW, id="two megabytes of headings"
    ),
    pytest.param(
        "a.csv", open_cell, ("is a quotation mark not closed?", TIME), marks=SLOW, id="an open quotation"
    ),
]


@pytest.fixture
def _neighbours_have_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is short for any file on a machine that does other work."""
    parse = ParserProcess.parse

    def patient(
        self: ParserProcess, descriptor: int, name: str, reader: str, options: ReadOptions
    ) -> Iterator[Record | Fault]:
        limits = self._limits
        self._limits = limits if name.startswith("a.") else replace(limits, time_s=60)
        try:
            yield from parse(self, descriptor, name, reader, options)
        finally:
            self._limits = limits

    monkeypatch.setattr(ParserProcess, "parse", patient)


@pytest.mark.usefixtures("_neighbours_have_a_minute")
@pytest.mark.parametrize(("name", "content", "reasons"), BOMBS)
def test_a_bomb_is_given_up_and_its_neighbour_read(
    tmp_path: Path, name: str, content: Callable[[], bytes], reasons: tuple[str, ...]
) -> None:
    written(tmp_path, name, content())
    written(tmp_path, "z.txt", "the neighbour")
    (document,), (skipped,) = read_all(tmp_path, limits=LIMITS, max_line_bytes=1_000_000)
    assert document.text == "the neighbour"
    assert skipped.is_fault
    assert any(reason in skipped.why for reason in reasons), skipped.why


def test_memory_is_limited_where_there_is_no_proc_and_the_ended_parser_leaves_no_file(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(ingest.read, "ParserProcess", ParserProcess)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support" / "without_linux"))
    path = written(tmp_path, "a.html", b"<p>a</p>" * 200_000)
    why = skipped(path, limits=ReadLimits(time_s=60, memory_mb=50)).why
    assert why == "it takes more than 50 MB of memory to read"
    assert list(temporary.iterdir()) == []


def word(path: Path, text: str) -> None:
    document = docx.Document()
    document.add_paragraph(text)
    document.save(str(path))


def slides(path: Path, text: str) -> None:
    deck = pptx.Presentation()
    box = deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_textbox(0, 0, 9, 9)
    box.text_frame.text = text
    deck.save(str(path))


def cut(text: Any) -> list[Any]:
    return [text[at : at + 30_000] for at in range(0, len(text), 30_000)]


WRITE: dict[str, Callable[[Path, str], object]] = {
    ".csv": lambda path, text: path.write_text(f"text\n{text}\n"),
    ".docx": word,
    ".jsonl": lambda path, text: path.write_text(json.dumps({"text": text})),
    # PDFium reads up to 32,767 characters of one text.
    ".pdf": lambda path, text: path.write_bytes(page_tree(1, b") Tj 0 -9 Td (".join(cut(text.encode())))),
    ".pptx": slides,
    ".xlsx": lambda path, text: workbook(path, *([one] for one in cut(text))),
}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", WRITE)
def test_a_parser_that_is_killed_while_it_reads_leaves_no_file(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(ingest.read, "ParserProcess", ParserProcess)
    # More than a socket keeps, so the parser still writes it when it is killed; and no text that is suspiciously small as a zip.
    WRITE[suffix](tmp_path / f"a{suffix}", Random(0).randbytes(300_000).hex())
    limits = ReadLimits(time_s=60, output_mb=0.1)
    assert skipped(tmp_path, limits=limits, max_line_bytes=10_000_000).why == "its text has more than 0.1 MB"
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_the_time_to_start_the_process_does_not_count_for_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ingest.parser_process._PROGRAM
    monkeypatch.setattr(ingest.parser_process, "_PROGRAM", f"import time; time.sleep(3.5); {program}")
    monkeypatch.setattr(ingest.read, "ParserProcess", ParserProcess)
    assert document_of(written(tmp_path, "a.txt", "text"), limits=ReadLimits(time_s=3)).text == "text"


def test_a_line_of_a_million_spaces_in_front_matter_is_read_at_once(tmp_path: Path) -> None:
    front = "---\nurl: x" + " " * 1_000_000 + "y\nname: 'z' \t\n---\n# Title\n"
    document = document_of(written(tmp_path, "a.md", front), limits=ReadLimits(time_s=30))
    assert document.metadata == {"url": "x y", "name": "z"}


def test_a_folder_1500_levels_deep_is_read(tmp_path: Path) -> None:
    here = Path.cwd()
    try:
        # The whole path is longer than a system call takes.
        os.chdir(tmp_path)
        for _ in range(1_500):
            Path("deep").mkdir()
            os.chdir("deep")
        Path("a.txt").write_text("far down")
        written(tmp_path, "z.txt", "near")
        (document,), notes = read_all(tmp_path)
    finally:
        os.chdir(here)
        # Python's own removal of a tree calls itself for each level.
        subprocess.run(["rm", "-rf", str(tmp_path / "deep")], check=True)
    assert (document.text, len(notes)) == ("near", 1)


def test_the_process_gets_no_variable_whose_name_only_begins_like_a_harmless_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secrets = {"LANGCHAIN_API_KEY", "HOMEBREW_GITHUB_API_TOKEN"}
    for name in (*secrets, "LC_ALL"):
        monkeypatch.setenv(name, "x")
    environment: dict[str, str] = {}

    def popen(*_: object, env: dict[str, str], **__: object) -> None:
        environment.update(env)
        raise OSError("seen")

    monkeypatch.setattr(subprocess, "Popen", popen)
    process = ParserProcess(LIMITS)
    with pytest.raises(ServiceError, match="seen"):
        list(process.parse(os.open(os.devnull, os.O_RDONLY), "a.txt", "text", ReadOptions({}, 1, 1)))
    assert environment["LC_ALL"] == "x"
    assert not environment.keys() & secrets
