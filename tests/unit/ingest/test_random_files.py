"""Whatever is in a file, reading goes on, and what was read can be split."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.raw_documents import RawDocument, Skipped
from ingest.read import FORMATS, read_documents
from ingest.split import Splitter
from tests.support.models.hashing_embedder import HashingEmbedder

PIECES = {
    "markdown": ["# ", "> ", "- ", "1. ", "---\n", "```\n", "a: b\n", "[a]: b\n", "===\n", "<b>", "*", "`"],
    "html": ["<p>", "</p>", "<li>", "<table><tr><td>", "<h1>", "<title>", "<!--", "-->", "&#x0;", "<script>"],
    "restructured_text": [".. ", "::\n", "=====\n", "|a|", ".. |a| replace:: ", "`x`_", "* ", ":role:`x`"],
    "csv_rows": ["text,id\n", '"', ",", "\t", '""', "\n"],
    "json_document": (
        json := ['{"text": "', '"}\n', "{", "}", "[", '"id": 1, ', "\\ud800", "\\u0000", "1e999", "\n"]
    ),
    "json_lines": json,
    "pdf": [
        "%PDF-1.4\n",
        "1 0 obj",
        "<</Type/Page",
        ">>",
        "stream\n",
        "endobj\n",
        "xref\n",
        "trailer",
        "%%EOF",
    ],
    "word": (archive := ["PK\x03\x04", "PK\x05\x06", "[Content_Types].xml", "\0" * 18]),
    "powerpoint": archive,
    "excel": archive,
    "text": [],
}
ANYWHERE = ["word ", "    ", "\r\n", "\n\n", *"\n \0\x85\u2028\ufeff\ud800\x1bé\udcff"]
SPLITTER = Splitter(HashingEmbedder().count_pieces, max_pieces=16)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    suffix, reader = draw(st.sampled_from(sorted(FORMATS.items())))
    pieces = st.lists(st.sampled_from(PIECES[reader] + ANYWHERE), max_size=60).map("".join)
    text = pieces.map(lambda text: text.encode("utf-8", "surrogatepass"))
    return suffix, draw(text | st.binary(max_size=200))


@given(files())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_random_file_is_read_or_reported_and_its_neighbour_read(file: tuple[str, bytes]) -> None:
    suffix, content = file
    with TemporaryDirectory() as folder:
        (Path(folder) / f"a{suffix}").write_bytes(content)
        (Path(folder) / "z.txt").write_text("the neighbour")
        *items, last = read_documents([folder], source="s")
    assert isinstance(last, RawDocument)
    assert last.text == "the neighbour"
    assert items, "neither a document nor a reason"
    for item in items:
        if isinstance(item, Skipped):
            assert item.why
        else:
            item.text.encode()
            for passage in SPLITTER.split(item):
                assert item.text[passage.start : passage.end] == passage.text
