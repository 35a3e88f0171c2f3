"""Word files, made by the library that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from docx import Document
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml

from ingest.formats.word_numbers import Numbers
from models.not_indexed import NotIndexed
from tests.support.reading import document_of, with_note

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def test_a_word_file_keeps_headings_lists_and_tables_in_their_order(tmp_path: Path) -> None:
    document = Document()
    document.add_heading("The handbook", 0)
    document.add_heading("Install", 1)
    document.add_paragraph("# of steps:\ntwo")
    document.add_paragraph("Unpack it", style="List Bullet")
    table = document.add_table(2, 2)
    for cell, text in zip(table._cells, ("Part", "Size", "Axle", "3 mm"), strict=True):
        cell.text = text
    document.add_heading("Deep", 9)
    document.add_paragraph("The end")
    document.save(str(tmp_path / "a.docx"))
    read = document_of(tmp_path / "a.docx")
    assert read.text == (
        "# The handbook\n\n# Install\n\n\\# of steps:\ntwo\n\n- Unpack it\n\n"
        "Part | Size\nAxle | 3 mm\n\n###### Deep\n\nThe end"
    )
    assert [heading.text for heading in read.headings or ()] == ["The handbook", "Install", "Deep"]


def test_headings_and_numbers_of_a_word_file_may_come_from_a_style(tmp_path: Path) -> None:
    document = Document()
    style = document.styles.add_style("Chapter", 1)
    style.base_style = document.styles["Heading 2"]
    document.add_paragraph("Brakes", style="Chapter")
    for text in ("Boil the water", "Wait"):
        document.add_paragraph(text, style="List Number")
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == "## Brakes\n\n1. Boil the water\n\n2. Wait"


def test_a_word_file_keeps_text_boxes_controls_and_inserted_words_but_no_deleted_ones(tmp_path: Path) -> None:
    document = Document()
    box = "<w:txbxContent><w:p><w:r><w:t>In the box</w:t></w:r></w:p></w:txbxContent>"
    changed = (
        "<w:ins><w:r><w:t> new</w:t></w:r></w:ins><w:del><w:r><w:delText> gone</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t> moved</w:t></w:r></w:moveFrom>"
    )
    inner = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>inner</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    cell = f"<w:tc><w:p><w:r><w:t>outer</w:t></w:r></w:p>{inner}</w:tc>"
    for part in (
        f"<w:p><w:r><w:t>Text</w:t></w:r>{changed}<w:r><w:pict>{box}</w:pict></w:r></w:p>",
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>In a control</w:t></w:r></w:p></w:sdtContent></w:sdt>",
        f"<w:tbl><w:tr>{cell}<w:tc><w:p/></w:tc><w:tc><w:p><w:r><w:t>last</w:t></w:r></w:p></w:tc></w:tr></w:tbl>",
    ):
        document.element.body.append(parse_xml(_w(part)))
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == (
        "Text new\n\nIn the box\n\nIn a control\n\nouter inner | | last"
    )


def test_a_word_file_keeps_footnotes_and_has_no_list_of_contents(tmp_path: Path) -> None:
    document = Document()
    contents = document.styles.add_style("toc 1", 1)
    document.add_paragraph("Install ..... 3", style=contents)
    document.add_paragraph("Text")
    note = "<w:footnotes><w:footnote><w:p><w:r><w:t>See below.</w:t></w:r></w:p></w:footnote></w:footnotes>"
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    part = Part(PackURI("/word/footnotes.xml"), kind, _w(note).encode(), document.part.package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == "Text\n\nSee below."


def test_a_word_file_keeps_the_numbers_that_word_counts(tmp_path: Path) -> None:
    document = Document()
    rules = document.part.numbering_part.element
    levels = "".join(
        f'<w:lvl w:ilvl="{at}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for at, (start, form, text) in enumerate(
            [
                (4, "decimal", "%1."),
                (1, "decimal", "%1.%2"),
                (1, "lowerLetter", "%3)"),
                (1, "upperRoman", "§ %4"),
            ]
        )
    )
    rules.append(parse_xml(_w(f'<w:abstractNum w:abstractNumId="90">{levels}</w:abstractNum>')))
    rules.append(parse_xml(_w('<w:num w:numId="90"><w:abstractNumId w:val="90"/></w:num>')))
    heading = document.add_heading("Duties", 2)
    first, *others = [
        document.add_paragraph(text) for text in ("Rent", "Heat", "Pets", "Cats", "Dogs", "Water")
    ]
    table = document.add_table(1, 1)
    table.cell(0, 0).text = "Keys"
    levels_of = [0, 1, 1, 2, 2, 3, 0]
    for each, level in zip([heading, first, *others], levels_of, strict=True):
        each._p.get_or_add_pPr().append(parse_xml(_w(_IN_LIST.format(level=level))))
    table.cell(0, 0).paragraphs[0]._p.get_or_add_pPr().append(parse_xml(_w(_IN_LIST.format(level=1))))
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == (
        "## 4. Duties\n\n4.1 Rent\n\n4.2 Heat\n\na) Pets\n\nb) Cats\n\n§ I Dogs\n\n5. Water\n\n5.1 Keys"
    )


_IN_LIST = '<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="90"/></w:numPr>'


@pytest.mark.parametrize(
    ("number", "form", "text"),
    [
        (28, "lowerLetter", "bb"),
        (1994, "upperRoman", "MCMXCIV"),
        (7, "decimalZero", "07"),
        (3, "none", ""),
        (1, "ordinal", "1st"),
        (12, "ordinal", "12th"),
        (22, "ordinal", "22nd"),
        (21, "cardinalText", "Twenty-one"),
        (3, "ordinalText", "Third"),
        (20, "ordinalText", "Twentieth"),
        (3, "decimalEnclosedCircle", "③"),
        (21, "chineseCountingThousand", "二十一"),
        (10, "japaneseCounting", "十"),
        (2, "russianUpper", "Б"),
    ],
)
def test_a_number_of_a_word_file_has_the_form_that_its_list_names(number: int, form: str, text: str) -> None:
    rules = f"""<w:numbering><w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="{number}"/>
        <w:numFmt w:val="{form}"/><w:lvlText w:val="%1"/></w:lvl></w:abstractNum>
        <w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num></w:numbering>"""
    assert Numbers(parse_xml(_w(rules))).next("2", 0) == text


@pytest.mark.parametrize("form", ["ordinal", "cardinalText"])
def test_number_words_of_a_word_file_in_another_language_are_digits(tmp_path: Path, form: str) -> None:
    document = Document()
    (language,) = document.styles.element.xpath("./w:docDefaults//w:lang")
    language.set(f"{{{W}}}val", "de-DE")
    document.part.numbering_part.element.append(parse_xml(_w(_RULES.format(form=form))))
    document.part.numbering_part.element.append(parse_xml(_w(_LIST.format(id=90, overrides=""))))
    document.add_paragraph("Miete")._p.get_or_add_pPr().append(parse_xml(_w(_IN_LIST.format(level=0))))
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == "1. Miete"


_RULES = (
    '<w:abstractNum w:abstractNumId="90"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="{form}"/>'
    '<w:lvlText w:val="%1."/></w:lvl><w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/>'
    '<w:lvlText w:val="%1.%2"/></w:lvl><w:lvl w:ilvl="2"><w:start w:val="1"/><w:numFmt w:val="decimal"/>'
    '<w:lvlRestart w:val="1"/><w:lvlText w:val="%1.%2.%3"/></w:lvl></w:abstractNum>'
)
_LIST = '<w:num w:numId="{id}"><w:abstractNumId w:val="90"/>{overrides}</w:num>'
_BEGINS_ANEW = '<w:lvlOverride w:ilvl="{level}"><w:startOverride w:val="{start}"/></w:lvlOverride>'


def test_a_list_of_a_word_file_counts_on_in_another_list_of_its_rules_unless_that_begins_anew() -> None:
    rules = _RULES.format(form="upperLetter")
    lists = [
        _LIST.format(id=1, overrides=""),
        _LIST.format(id=2, overrides=f'<w:lvlOverride w:ilvl="0">{_LEVEL_IN_DIGITS}</w:lvlOverride>'),
        _LIST.format(id=3, overrides=_BEGINS_ANEW.format(level=0, start=5)),
        _LIST.format(id=4, overrides=_BEGINS_ANEW.format(level=1, start=7)),
    ]
    numbers = Numbers(parse_xml(_w(f"<w:numbering>{rules}{''.join(lists)}</w:numbering>")))
    labels = [numbers.next(list_id, 0) for list_id in "1121331"]
    assert labels == ["A.", "B.", "(3)", "D.", "E.", "F.", "G."]
    assert [numbers.next("4", level) for level in (1, 1, 0, 1)] == ["G.7", "G.8", "H.", "H.7"]


_LEVEL_IN_DIGITS = '<w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/><w:lvlText w:val="(%1)"/></w:lvl>'


def test_a_level_of_a_word_file_counts_on_until_the_level_that_its_rules_name() -> None:
    lists = _RULES.format(form="decimal") + _LIST.format(id=1, overrides="")
    numbers = Numbers(parse_xml(_w(f"<w:numbering>{lists}</w:numbering>")))
    labels = [numbers.next("1", level) for level in (0, 1, 2, 1, 2, 0, 2)]
    assert labels == ["1.", "1.1", "1.1.1", "1.2", "1.2.2", "2.", "2.1.1"]


def test_check_boxes_and_fractions_of_a_word_file_are_readable(tmp_path: Path) -> None:
    document = Document()
    box = "<w:fldChar><w:ffData><w:checkBox>{}</w:checkBox></w:ffData></w:fldChar>"
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    half = f"<m:f {math}><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    runs = [
        box.format('<w:default w:val="0"/><w:checked/>'),
        "<w:t> paid </w:t>",
        box.format('<w:default w:val="0"/>'),
        "<w:t> late </w:t>",
        '<w:sym w:font="Wingdings" w:char="F0FE"/>',
    ]
    paragraph = f"<w:p>{''.join(f'<w:r>{run}</w:r>' for run in runs)}{half}</w:p>"
    document.element.body.append(parse_xml(_w(paragraph)))
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == "[x] paid [ ] late ☒1/2"


def test_hidden_text_of_a_word_file_is_left_out_unless_somebody_asks_for_it(tmp_path: Path) -> None:
    document = Document()
    secret = document.styles.add_style("Secret", 2)
    secret.font.hidden = True
    paragraph = document.add_paragraph("Seen")
    paragraph.add_run(" by nobody").font.hidden = True
    paragraph.add_run(" at all", style="Secret")
    document.save(str(path := tmp_path / "a.docx"))
    read, note = with_note(path)
    assert (note.reason, note.why) == (NotIndexed.HIDDEN_TEXT, "hidden text; --hidden-text reads it")
    assert (read.text, document_of(path, hidden_text=True).text) == ("Seen", "Seen by nobody at all")


def _w(xml: str) -> str:
    """XML whose first element declares the prefix `w`."""
    return xml.replace(">", f' xmlns:w="{W}">', 1)
