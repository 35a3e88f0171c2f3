"""Files that are broken, huge or malicious are reported with the reason, and the others are read."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from ingest.raw_documents import RawDocument, Skipped
from ingest.read import read_documents
from tests.support.reading import read_all, written

# Python 3.14 reads as many levels as the stack of C has room for.
TOO_DEEP = "nested too deeply" if sys.version_info < (3, 14) else "not a JSON object"
DEEP_METADATA = b'{"text": "x", "metadata": {"a": ' + b"[" * 20 + b"]" * 20 + b"}}"
HOSTILE: dict[str, tuple[str, bytes, str]] = {
    "nul bytes": ("a.txt", b"text\x00more", "binary: it holds NUL bytes"),
    "utf-16": ("a.md", "hello".encode("utf-16"), "encoded as UTF-16"),
    "broken utf-8": ("a.txt", b"first\nsecond \xff\n", "not UTF-8: byte 0xff in line 2"),
    "latin-1": ("a.html", "<p>caffè</p>".encode("latin-1"), "not UTF-8"),
    "broken pdf": ("a.pdf", b"%PDF-1.7\nnonsense", "damaged"),
    "deep html": ("a.html", b"<div>" * 2_000 + b"x", "cannot be read: maximum recursion depth"),
    "deep rst": ("a.rst", b"\n".join(b" " * 2 * n + b"* x\n" for n in range(290)), "cannot be read"),
    "too large": ("a.md", b"x" * 100_001, "larger than 100,000 bytes"),
    "csv columns twice": ("a.csv", b"text,text\na,b\n", "two columns have the same name"),
    "csv of another encoding": ("a.csv", "text\nx".encode("utf-16"), "encoded as UTF-16"),
    "deep json": ("a.jsonl", b"[" * 10_000 + b"]" * 10_000, TOO_DEEP),
    "deep metadata": ("a.jsonl", DEEP_METADATA, "metadata: nested deeper than 16 levels"),
    "json list": ("a.jsonl", b"[1]", "not a JSON object"),
    "no json": ("a.jsonl", b"{'text': 1}", "not JSON"),
    "infinity": ("a.jsonl", b'{"text": "x", "metadata": {"a": Infinity}}', "Infinity is not a JSON number"),
    "overflow": ("a.jsonl", b'{"text": "x", "metadata": {"a": 1e999}}', "inf is not a JSON number"),
    "text of another kind": ("a.jsonl", b'{"text": ["x"]}', "'text' is a list, not a text"),
    "id of another kind": ("a.jsonl", b'{"text": "x", "id": true}', "the id is a truth value"),
    "metadata of another kind": ("a.jsonl", b'{"text": "x", "metadata": "y"}', "metadata: a text"),
    "control characters in an id": ("a.jsonl", b'{"text": "x", "id": "a\\nb"}', "control characters"),
    "endless id": ("a.jsonl", b'{"text": "x", "id": "' + b"i" * 600 + b'"}', "at most 480 are allowed"),
    "no text": ("a.jsonl", b'{"id": "a"}', "no text"),
    "unknown format": ("a.odt", b"x", "no reader for .odt"),
}


def read_limited(*paths: Path) -> tuple[list[RawDocument], list[Skipped]]:
    return read_all(*paths, max_file_bytes=100_000, max_line_bytes=50_000)


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_reported_and_its_neighbour_read(tmp_path: Path, case: str) -> None:
    name, raw, why = HOSTILE[case]
    documents, (only,) = read_limited(
        written(tmp_path, name, raw), written(tmp_path, "z.txt", "the neighbour")
    )
    assert [document.text for document in documents] == ["the neighbour"]
    assert only.is_fault
    assert why in only.why
    assert "Error" not in only.why


def test_an_empty_file_is_reported_and_is_not_a_fault(tmp_path: Path) -> None:
    for suffix in ("txt", "md", "rst", "html", "csv", "jsonl"):
        (tmp_path / f"a.{suffix}").write_bytes(b"")
    documents, skipped = read_limited(tmp_path)
    assert not documents
    assert [(item.why[:5], item.is_fault) for item in skipped] == [("empty", False)] * 6


def test_a_bad_line_is_reported_by_its_number_and_the_rest_is_read(tmp_path: Path) -> None:
    good = b'{"id": "%d", "text": "text %d"}\n'
    lines = [good % (1, 1), b"{broken\n", b"\n", b'{"text": "\xff"}\n', good % (5, 5), b'"' + b"x" * 200_000]
    (tmp_path / "c.jsonl").write_bytes(b"".join([*lines, b"\n", good % (7, 7)]))
    documents, skipped = read_limited(tmp_path / "c.jsonl")
    assert [document.document_id for document in documents] == [f"s/c.jsonl#{n}" for n in (1, 5, 7)]
    assert [item.line for item in skipped] == [2, 4, 6]
    reasons = [item.why.split(":")[0] for item in skipped]
    assert reasons == ["not JSON", "not UTF-8", "longer than 50,000 bytes"]


def test_a_bad_row_of_csv_is_reported_by_its_line_and_the_rest_is_read(tmp_path: Path) -> None:
    long = b"6," + b"x" * 60_000
    rows = [b"id,text", b"1,one", b"2,two,three", b'3,"a"b', b"4,\xff", b"5,five", long, b"7,seven"]
    (tmp_path / "c.csv").write_bytes(b"\n".join(rows))
    documents, skipped = read_limited(tmp_path / "c.csv")
    assert [document.text for document in documents] == ["one", "five", "seven"]
    assert [item.line for item in skipped] == [3, 4, 5, 7]


def test_characters_that_no_store_accepts_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    row = {"text": "a\0b\ud800c\u2028d", "title": "t\a t", "metadata": {"k": "\udfff"}}
    path.write_text(json.dumps(row))
    (document,), _ = read_limited(path)
    assert (document.text, document.title) == ("a b\ufffdc\nd", "t t")
    assert document.metadata == {"k": "\ufffd"}


@pytest.mark.parametrize(
    ("name", "line"), [("c.jsonl", '{"text": "x"}\n'), ("c.csv", "x\n"), ("c.txt", "x\n")]
)
def test_a_file_that_grows_is_read_up_to_the_size_that_it_had(tmp_path: Path, name: str, line: str) -> None:
    """Another process writes faster than this one reads."""
    path = tmp_path / name
    path.write_text("text\n" + line * 1000 if name == "c.csv" else line * 1000)
    items = read_documents([path], source="s")
    first = next(items)
    with path.open("a") as file:
        file.write(line * 100_000)
    assert len([first, *items]) in (1, 1000)


def test_a_pipe_is_reported_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cafe\u0301.txt")
    for start in (tmp_path, tmp_path / "cafe\u0301.txt"):
        _, (skipped,) = read_limited(start)
        assert skipped.why == "neither a file nor a folder"
        # Documents of this name are protected from pruning, whatever the Unicode form of the name.
        assert skipped.spares == "s/caf\u00e9.txt"


def test_a_file_without_permission_is_reported_and_protected_from_pruning(tmp_path: Path) -> None:
    """If the tests run as root, an unprivileged user owns the folder, and the process has this user's rights meanwhile."""
    (tmp_path / "first.txt").write_text("read before this process changes its user")
    folder, mine = Path(tempfile.mkdtemp()), os.geteuid()
    items = read_documents([tmp_path / "first.txt", folder], source="s")
    next(items)
    try:
        if mine == 0:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        for name in ("a.txt", "c.txt"):
            (folder / name).write_text("readable")
        (folder / "b").mkdir()
        for name in ("a.txt", "b"):
            (folder / name).chmod(0)
        rest = list(items)
        (folder / "b").chmod(0o700)
    finally:
        os.seteuid(mine)
        shutil.rmtree(folder)
    assert [item.document_id for item in rest if isinstance(item, RawDocument)] == ["s/c.txt"]
    assert [(item.why, item.spares) for item in rest if isinstance(item, Skipped)] == [
        ("cannot be read: Permission denied", "s/a.txt"),
        ("cannot be opened: Permission denied", "s/b"),
    ]
