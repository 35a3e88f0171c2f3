"""The demo's corpus: what is in it, what is left out, and that it is the same each time."""

from __future__ import annotations

from collections import Counter

import pytest

from cli.demo.python_docs import MIN_WORDS, as_markdown, python_docs
from ingest.raw_documents import RawDocument
from tests.support.new_process import printed


@pytest.fixture(scope="module")
def corpus() -> dict[str, RawDocument]:
    return {document.document_id: document for document in python_docs()}


def test_the_corpus_has_every_kind_and_a_size_that_a_demo_can_index(corpus: dict[str, RawDocument]) -> None:
    kinds = Counter(document.metadata["source_type"] for document in corpus.values())
    assert kinds.keys() == {"module", "class", "function", "method", "topic", "builtin"}
    assert all(number >= 30 for number in kinds.values()), kinds
    assert 700 <= len(corpus) <= 1_600
    assert sum(len(document.text.split()) for document in corpus.values()) < 120_000


def test_a_document_knows_its_kind_its_module_and_its_page(corpus: dict[str, RawDocument]) -> None:
    method, builtin = corpus["python/collections.Counter.most_common"], corpus["python/builtins.str.casefold"]
    where = {"parent": "collections", "url": "library/collections.html"}
    assert (method.metadata, method.source) == ({"source_type": "method", **where}, "python")
    assert builtin.metadata == {"source_type": "builtin", "parent": "builtins"}
    assert corpus["python/topics/assert"].metadata == {"source_type": "topic"}


def test_private_names_copies_and_short_texts_are_left_out(corpus: dict[str, RawDocument]) -> None:
    parts = [part for name in corpus for part in name.replace("/", ".").split(".")]
    assert not [part for part in parts if part.startswith("_")]
    texts = [" ".join(document.text.split()).casefold() for document in corpus.values()]
    assert len(texts) == len(set(texts))
    assert min(len(text.split()) for text in texts) >= MIN_WORDS
    assert not [name for name in corpus if ".tests" in name or ".test_" in name]


def test_a_section_that_is_a_topic_is_not_repeated_in_its_chapter(corpus: dict[str, RawDocument]) -> None:
    sentence = 'The "while" statement is used for repeated execution'
    holders = [name for name, document in corpus.items() if sentence in " ".join(document.text.split())]
    assert holders == ["python/topics/while"]
    assert 'The "match" statement' in corpus["python/topics/compound"].text


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_order_is_the_same_in_every_process(corpus: dict[str, RawDocument], seed: str) -> None:
    program = "from cli.demo.python_docs import python_docs\nfor one in python_docs(): print(one.document_id)"
    assert printed(program, PYTHONHASHSEED=seed) == list(corpus)


def test_no_module_is_imported_for_its_docstrings() -> None:
    program = """
import sys
from cli.demo.python_docs import python_docs
before = set(sys.modules)
names = [document.document_id for document in python_docs(['wave', 'turtle', 'antigravity'])]
assert any(name.startswith('python/turtle.') for name in names)
print(*sorted(set(sys.modules) - before))
"""
    assert printed(program) == ["pydoc_data pydoc_data.topics"]


def test_underlined_headings_become_markdown() -> None:
    text = "Values\n******\n\nText.\n\nNumbers\n=======\n\na ::= b\n\n   x\n   ---\n\nLast\n----\n"
    assert as_markdown(text) == "# Values\n\nText.\n\n## Numbers\n\na ::= b\n\n   x\n   ---\n\n### Last"
