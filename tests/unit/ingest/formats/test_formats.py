"""Each format, read from a real small file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.raw_documents import RawDocument
from models.not_indexed import NotIndexed
from tests.support.reading import read_all, with_note, written

TABLE = ".. table:: Caption\n\n   == ==\n   a  b\n   == ==\n\n"


def read(folder: Path, name: str, content: str | dict[str, Any], **options: Any) -> RawDocument:
    """The only document of a file with this content, or with this row of JSON."""
    path = written(folder, name, content if isinstance(content, str) else json.dumps(content))
    (document,), notes = read_all(path, **options)
    assert {note.reason for note in notes} <= {NotIndexed.DIRECTIVE}
    return document


@pytest.mark.parametrize(
    ("name", "content", "title", "text"),
    [
        ("notes.txt", "\ufeff# not a heading\r\nsecond line", "notes", "# not a heading\nsecond line"),
        ("b.md", "#\n\n# Real heading\n", "Real heading", None),
        ("a.md", "intro\n\n# The `Guide` *here*\n\n# Other\n", "The Guide here", None),
        ("c.jsonl", '{"id": 1, "title": "Only this"}', "Only this", "Only this"),
        ("a.rst", ":orphan:\n:tocdepth: 2\n\ntext", "a", "text"),
        ("a.rst", ".. raw:: html\n\n   <script>x</script>\n\nafter", "a", "after"),
        (
            "a.rst",
            f"{TABLE}:mod:`json` --- Encoder\n=======================\n\nx\n",
            "json --- Encoder",
            None,
        ),
        (
            "a.xhtml",
            '<?xml version="1.0"?><!DOCTYPE html><p>a</p><![if !IE]><p>b</p><![endif]>',
            "a",
            "a\n\nb",
        ),
        ("a.html", "<svg><title>Menu</title></svg><h1>Top</h1><p>a</p>", "Top", "# Top\n\na"),
    ],
)
def test_a_file_has_a_title_and_its_text_without_markup(
    tmp_path: Path, name: str, content: str, title: str, text: str | None
) -> None:
    document = read(tmp_path, name, content)
    assert document.title == title
    assert text is None or document.text == text


def test_headings_make_a_text_markdown_unless_the_file_is_plain(tmp_path: Path) -> None:
    assert read(tmp_path, "a.txt", "# not a heading").markup == "plain"
    assert read(tmp_path, "a.md", "# A heading").markup == "markdown"
    assert read(tmp_path, "c.jsonl", {"text": "intro\n\n## Part\n\nbody"}).markup == "markdown"


def test_front_matter_is_metadata_and_not_text(tmp_path: Path) -> None:
    front = '---\ntitle: "From the front"\ndate: 2024-05-06\ntags:\n  - a\nurl: https://x.test/a\n---\n'
    document = read(tmp_path, "a.md", front + "# Heading\n\nBody", fields={"published_at": "date"})
    assert (document.title, document.text) == ("From the front", "# Heading\n\nBody")
    dates = {"date": "2024-05-06", "published_at": "2024-05-06"}
    assert document.metadata == {**dates, "tags": ["a"], "url": "https://x.test/a"}
    # A text between two horizontal rules is not front matter.
    for text in ("---\nfirst\n\n---\n\nsecond", "---\n\n# First\n\n- a\n\n---\nsecond"):
        assert read(tmp_path, "a.md", text).text == text


def test_an_entity_in_markdown_is_the_sign_that_a_person_reads_and_in_code_it_is_code(tmp_path: Path) -> None:
    source = "M&uuml;nchen, R&amp;D &#8211; 5&nbsp;&euro;\n\n&lt;b&gt; &amp;lt; \\&euro; `&euro;`\n\n&#35; no heading\n\n"
    code = "```\n&euro; ` &amp;\n```\n\n&unknown; `&euro;"
    document = read(tmp_path, "a.md", source + code)
    read_as = "München, R&D – 5\xa0€\n\n\\<b\\> \\&lt; \\&euro; `&euro;`\n\n\\# no heading\n\n"
    assert document.text == read_as + "```\n&euro; ` &amp;\n```\n\n&unknown; `€"
    assert document.headings == []


def test_front_matter_keeps_the_types_of_yaml_but_no_value_that_is_only_written_like_one(
    tmp_path: Path,
) -> None:
    front = (
        "---\n# a comment\nsummary: >\n  First line\n  and second.\nempty:\n"
        "tags: [tea, rice]\nauthor:\n  name: Ann\nyear: 2026\nprice: -2.50\ndraft: false\n"
        "lang: no\npart: 007\nversion: '1.10'\nat: 12:30\nday: 2024-05-06\n---\n"
    )
    typed = {"year": 2026, "price": -2.5, "draft": False, "tags": ["tea", "rice"], "author": {"name": "Ann"}}
    texts = {"lang": "no", "part": "007", "version": "1.10", "at": "12:30", "day": "2024-05-06"}
    summary = {"summary": "First line and second."}
    assert read(tmp_path, "a.md", front + "Body").metadata == {**summary, **typed, **texts}


@pytest.mark.parametrize("wrong", ["title: one: two", "a: &x [1]\nb: *x", "a: [1"])
def test_front_matter_that_is_not_yaml_is_read_line_by_line_and_the_rest_is_reported(
    tmp_path: Path, wrong: str
) -> None:
    document, note = with_note(written(tmp_path, "a.md", f"---\n{wrong}\nyear: 2026\n- lost\n---\nBody"))
    assert (document.metadata["year"], document.text) == (2026, "Body")
    assert (note.reason, note.spares) == (NotIndexed.METADATA, None)
    assert note.why == "front matter: '- lost' is not YAML; indexed without it"


def test_only_the_first_20_000_characters_of_front_matter_are_read_as_yaml(tmp_path: Path) -> None:
    value = f"[{'a' * 6_000}]"
    front = "".join(f"k{number}: {value}\n" for number in range(10))
    metadata = read(tmp_path, "a.md", f"---\n{front}---\nBody").metadata
    assert metadata == {
        f"k{number}": ["a" * 6_000] if number < 20_000 // len(f"k0: {value}") else value
        for number in range(10)
    }


def test_restructured_text_keeps_what_docutils_cannot_read(tmp_path: Path) -> None:
    table = "=== ===\na b c d\nlonger than its column\n=== ==="
    source = f"before\n\n{table}\n\n.. only:: html\n\n   Words for the web.\n\n.. |x| image::\n\nafter"
    expected = f"before\n\n```\n{table}\n```\n\nWords for the web.\n\nafter"
    assert read(tmp_path, "a.rst", source).text == expected


def test_restructured_text_keeps_headings_and_what_docutils_does_not_know(tmp_path: Path) -> None:
    source = (
        "Title\n=====\n\nSub\n---\n\nUse :func:`foo.bar` or :ref:`that one <label>`.\n\n"
        ".. function:: open(path)\n   :module: io\n\n   Opens *it*.\n\n"
        ".. toctree::\n\n   hidden\n\n* one\n* two\n\n::\n\n   code here\n"
    )
    document = read(tmp_path, "a.rst", source)
    assert document.title == "Title"
    assert document.text == (
        "# Title\n\n## Sub\n\nUse foo.bar or that one.\n\nopen(path)\n\nOpens *it*.\n\n"
        "- one\n- two\n\n```\ncode here\n```"
    )


@pytest.mark.parametrize(
    "directive",
    ["include:: {}", "literalinclude:: {}", "raw:: html\n   :file: {}", "csv-table::\n   :file: {}"],
)
def test_restructured_text_opens_no_other_file(tmp_path: Path, directive: str) -> None:
    secret = written(tmp_path, "secret.inc", "the password")
    source = f"before\n\n.. {directive.format(secret)}\n\nafter"
    document, note = with_note(written(tmp_path, "a.rst", source))
    assert document.text == "before\n\nafter"
    assert note.reason is NotIndexed.DIRECTIVE
    assert directive.partition("::")[0] in note.why


def test_html_keeps_headings_and_drops_scripts_and_styles(tmp_path: Path) -> None:
    page = (
        "<html lang=it><head><title>Page</title><style>p {}</style>"
        '<link rel="canonical" href="https://x.test/p">'
        '<meta property="article:published_time" content="2024-01-02T03:04:05Z"></head>'
        "<body><script>alert(1)</script><!-- note --><h1>Top <a href=y>link</a></h1><p>some_name *x*</p>"
        "<h2>Below</h2><ul><li>one<li>two</ul><pre>a  b</pre></body></html>"
    )
    document = read(tmp_path, "a.html", page)
    assert document.title == "Page"
    assert document.text == "# Top link\n\nsome_name *x*\n\n## Below\n\n- one\n- two\n\n```\na  b\n```"
    published = {"published_at": "2024-01-02T03:04:05+00:00"}
    assert document.metadata == {"language": "it", "url": "https://x.test/p", **published}


FRAME = "<nav>Menu</nav><aside>Advertisement</aside><footer>Imprint</footer>"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (f"<header>Logo</header>{FRAME}<h1>Tea</h1><p>Brew it.</p>", "# Tea\n\nBrew it."),
        (
            f"{FRAME}<p>Skip to content</p><main><header><h1>Tea</h1>by Ann</header><aside>A note</aside></main>",
            "# Tea\n\nby Ann\n\nA note",
        ),
        (f"<h1>Tea</h1>{FRAME}<div role=main><h2>Green</h2></div>", "# Tea\n\n## Green"),
        ("<header><h1>Tea</h1><p>by Ann</p></header><p>Brew it.</p>", "# Tea\n\nby Ann\n\nBrew it."),
        (f"{FRAME}<main></main><p>Brew it.</p>", "Brew it."),
        ("<main><p>One</p></main><main><p>Two</p></main>", "One\n\nTwo"),
        ("<nav>Only <b>links</b></nav>", "Only links"),
        ("<nav><a>Menu</a><main><p>The menu is not closed.</p></main>", "The menu is not closed."),
        (
            f"{FRAME}<table><tr><th>Sort</th><th>Minutes</th></tr><tr><td>Green</td><td>2</td></tr></table>",
            "| Sort | Minutes |\n| --- | --- |\n| Green | 2 |",
        ),
        ("<p>No marks at all</p>", "No marks at all"),
    ],
)
def test_html_is_read_without_its_frame_and_no_other_text_is_lost(
    tmp_path: Path, body: str, text: str
) -> None:
    assert read(tmp_path, "a.html", f"<title>Tea</title>{body}").text == text


def test_json_lines_of_a_judged_collection_keep_their_ids(tmp_path: Path) -> None:
    row = {"_id": "MED-10", "title": "T", "text": "body", "metadata": {"year": 2007}, "url": "https://x.test"}
    options = {"source": None, "ids": "given", "fields": {"published_at": "year"}}
    document = read(tmp_path, "corpus.jsonl", row, **options)
    metadata = {"year": 2007, "published_at": "2007-01-01", "url": "https://x.test"}
    path = str(tmp_path / "corpus.jsonl")
    assert document == RawDocument("MED-10", "corpus.jsonl", "T", "body", metadata, "plain", path, 1)


def test_a_field_of_the_row_stands_before_that_of_its_metadata_unless_it_is_empty(tmp_path: Path) -> None:
    inner = {"published_at": "2021", "language": "it", "title": "Inner", "text": "inner"}
    row = {"published_at": "2020", "language": "", "title": None, "text": "outer", "metadata": inner}
    document, note = with_note(written(tmp_path, "c.jsonl", json.dumps(row)))
    assert note.why == "metadata: 'published_at' has another value in the row itself; indexed without it"
    assert (document.title, document.text) == ("Inner", "outer")
    assert (document.metadata["published_at"], document.metadata["language"]) == ("2020-01-01", "it")


def test_a_very_long_title_is_shortened_and_searched_as_text(tmp_path: Path) -> None:
    title = "word " * 100
    document = read(tmp_path, "c.jsonl", {"title": title, "text": "body"})
    assert len(document.title) <= 300
    assert document.text == f"{title.strip()}\n\nbody"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_csv_is_read_with_its_own_separator(tmp_path: Path, separator: str) -> None:
    rows = [["id", "title", "text", "year"], ["a", "T", '"two\nlines"', "1999"], ["b", "", "x", ""]]
    path = written(tmp_path, "c.csv", "".join(separator.join(row) + "\r\n" for row in rows))
    (first, second), _ = read_all(path)
    assert (first.document_id, second.document_id) == ("s/c.csv#a", "s/c.csv#b")
    assert (first.title, first.text) == ("T", "two\nlines")
    assert (first.metadata, second.metadata) == ({"year": 1999}, {})


def test_a_cell_that_is_written_as_a_number_or_truth_value_can_be_compared(tmp_path: Path) -> None:
    values: dict[str, object] = {"1999": 1999, "-3": -3, "0.50": 0.5, "true": True, "FALSE": False}
    texts = {cell: cell for cell in ("007", "1e3", "v1.2", "9" * 30, "no", "2024-05-06")}
    for cell, value in {**values, **texts}.items():
        document = read(tmp_path, "c.csv", f"id,text,size\n12,34,{cell}\n")
        assert (document.metadata, document.text) == ({"size": value}, "34")
        assert type(document.metadata["size"]) is type(value)
        assert document.document_id.endswith("#12")
    # A cell of a field that is a text is never a number.
    content = "id,text,section,source_type\n1,a,1.10,2.0\n"
    document = read(tmp_path, "c.csv", content, fields={"parent": "section"})
    assert document.metadata == {"parent": "1.10", "section": "1.10", "source_type": "2.0"}


def test_a_field_that_another_one_stands_for_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path, "c.csv", "text,lang,language\nhello,it,Italian\n")
    document, note = with_note(path, fields={"language": "lang"})
    assert document.metadata == {"lang": "it", "language": "it"}
    assert note.why == "language: 'lang' stands for it; indexed without 'Italian'"


def test_columns_of_other_names_are_mapped(tmp_path: Path) -> None:
    fields = {"id": "key", "text": "body", "published_at": "when"}
    content = "key,body,when\nk1,hello,2020-03\n"
    document = read(tmp_path, "c.csv", content, ids="given", fields=fields)
    assert (document.document_id, document.text) == ("k1", "hello")
    assert document.metadata == {"when": "2020-03", "published_at": "2020-03-01"}


def test_an_invalid_date_is_reported_and_the_document_kept(tmp_path: Path) -> None:
    row = '{"id": "a", "text": "x", "published_at": "soon"}'
    document, note = with_note(written(tmp_path, "c.jsonl", row))
    assert (note.line, note.spares) == (1, None)
    assert "'soon' is not an ISO 8601 date" in note.why
    assert document.metadata == {}
