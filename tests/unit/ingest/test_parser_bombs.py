"""Small files that take a parser minutes or gigabytes are given up at a limit, and the others are read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import ingest.parser_process
import ingest.read
from ingest.parser_process import ParserProcess
from ingest.raw_documents import Fault, RawDocument, ReadLimits, ReadOptions, Record, Skipped
from ingest.read import read_documents
from models.errors import ServiceError

LIMITS = ReadLimits(time_s=1, memory_mb=300, output_mb=2)
TIME, MEMORY, OUTPUT = "more than 1 s", "more than 300 MB of memory", "more than 2 MB"


def substitutions() -> bytes:
    """Each of ten names stands for eight times the next one: 500 bytes of reStructuredText for 8^9 words."""
    lines = [f".. |{one}| replace:: {' '.join([f'|{after}|'] * 8)}" for one, after in pairwise("abcdefghij")]
    return "\n".join([*lines, ".. |j| replace:: x", "", "|a|", ""]).encode()


def page_tree() -> bytes:
    """A PDF of 120 KB whose one page stands 20,000 times in the tree of pages."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count 20000/Kids[%s]>>" % (b"3 0 R " * 20_000),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>",
        b"<</Length 22>>stream\nBT /F 9 Tf (hello) Tj ET\nendstream",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    file, offsets = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        offsets.append(len(file))
        file += b"%d 0 obj%sendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return file + end % (table, len(file))


def open_cell() -> bytes:
    return b'text\n"' + b"x" * 30_000_000


BOMBS: dict[str, tuple[str, Callable[[], bytes], tuple[str, ...]]] = {
    "substitutions in substitutions": ("a.rst", substitutions, (TIME, MEMORY)),
    "paragraphs that never end": ("a.html", lambda: b"<p>a" * 10_000, (TIME, "RecursionError")),
    "five million ampersands": ("a.html", lambda: b"&" * 5_000_000, (TIME,)),
    "two megabytes of headings": ("a.md", lambda: b"# a\n" * 500_000, (TIME, OUTPUT)),
    "a page 20,000 times": ("a.pdf", page_tree, ("it claims 20,000 pages",)),
    "a quotation mark that is not closed": ("a.csv", open_cell, ("is a quotation mark not closed?", TIME)),
}

SLOW = BOMBS.keys() - {"substitutions in substitutions", "a page 20,000 times", "paragraphs that never end"}
"""Each takes the whole second, and only `make test-all` tries them."""


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
@pytest.mark.parametrize(
    "bomb", [pytest.param(bomb, marks=pytest.mark.slow if bomb in SLOW else ()) for bomb in BOMBS]
)
def test_a_bomb_is_given_up_and_its_neighbour_read(tmp_path: Path, bomb: str) -> None:
    name, content, reasons = BOMBS[bomb]
    (tmp_path / name).write_bytes(content())
    (tmp_path / "z.txt").write_text("the neighbour")
    items = list(read_documents([tmp_path], source="s", limits=LIMITS, max_line_bytes=1_000_000))
    assert [item.text for item in items if isinstance(item, RawDocument)] == ["the neighbour"]
    (skipped,) = (item for item in items if isinstance(item, Skipped))
    assert skipped.is_fault
    assert any(reason in skipped.why for reason in reasons), skipped.why


def test_memory_is_limited_where_there_is_no_proc_and_the_ended_parser_leaves_no_file(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(ingest.read, "ParserProcess", ParserProcess)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support" / "without_linux"))
    (tmp_path / "a.html").write_bytes(b"<p>a</p>" * 200_000)
    (tmp_path / "z.txt").write_text("the neighbour")
    limits = ReadLimits(time_s=60, memory_mb=50)
    document, skipped = sorted(read_documents([tmp_path], source="s", limits=limits), key=repr)
    assert isinstance(document, RawDocument)
    assert isinstance(skipped, Skipped)
    assert skipped.why == "it takes more than 50 MB of memory to read"
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_the_time_to_start_the_process_does_not_count_for_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ingest.parser_process._PROGRAM
    monkeypatch.setattr(ingest.parser_process, "_PROGRAM", f"import time; time.sleep(3.5); {program}")
    monkeypatch.setattr(ingest.read, "ParserProcess", ParserProcess)
    (tmp_path / "a.txt").write_text("text")
    (document,) = read_documents([tmp_path], source="s", limits=ReadLimits(time_s=3))
    assert isinstance(document, RawDocument)


def test_a_line_of_a_million_spaces_in_front_matter_is_read_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\nurl: x" + " " * 1_000_000 + "y\nname: 'z' \t\n---\n# Title\n")
    (document,) = read_documents([tmp_path], source="s", limits=LIMITS)
    assert isinstance(document, RawDocument)
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
        (tmp_path / "z.txt").write_text("near")
        items = list(read_documents([tmp_path], source="s"))
    finally:
        os.chdir(here)
        # Python's own removal of a tree calls itself for each level.
        subprocess.run(["rm", "-rf", str(tmp_path / "deep")], check=True)
    assert "near" in {item.text for item in items if isinstance(item, RawDocument)}
    assert len(items) == 2


def test_the_process_gets_no_variable_whose_name_only_begins_like_a_harmless_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secrets = {"LANGCHAIN_API_KEY", "HOMEBREW_GITHUB_API_TOKEN"}
    for name in (*secrets, "LC_ALL"):
        monkeypatch.setenv(name, "x")
    given: dict[str, str] = {}

    def popen(*_: object, env: dict[str, str], **__: object) -> None:
        given.update(env)
        raise OSError("seen")

    monkeypatch.setattr(subprocess, "Popen", popen)
    process = ParserProcess(LIMITS)
    with pytest.raises(ServiceError, match="seen"):
        list(process.parse(os.open(os.devnull, os.O_RDONLY), "a.txt", "text", ReadOptions({}, 1, 1)))
    assert given["LC_ALL"] == "x"
    assert not given.keys() & secrets
