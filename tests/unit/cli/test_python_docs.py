"""The corpus of the measurements: what is in it, what is left out, and that it is the same each time."""

from __future__ import annotations

from collections import Counter

import pytest

from ingest.raw_documents import RawDocument
from tests.bench.python_docs import MIN_WORDS, python_docs
from tests.support.new_process import printed


@pytest.fixture(scope="module")
def corpus() -> dict[str, RawDocument]:
    return {document.document_id: document for document in python_docs()}


def test_the_corpus_has_every_kind_and_a_size_that_a_demo_can_index(corpus: dict[str, RawDocument]) -> None:
    kinds = Counter(document.metadata["source_type"] for document in corpus.values())
    assert kinds.keys() == {"module", "class", "function", "method", "topic", "builtin"}
    assert all(number >= 30 for number in kinds.values()), kinds
    assert 700 <= len(corpus) <= 1_600
    assert sum(len(document.text.split()) for document in corpus.values()) < 90_000


def test_a_document_has_the_title_the_kind_and_the_page_of_its_name(corpus: dict[str, RawDocument]) -> None:
    method = corpus["python/collections.Counter.most_common"]
    assert method.metadata == {
        "source_type": "method",
        "parent": "collections",
        "url": "library/collections.html",
    }
    assert corpus["python/heapq.nlargest"].title == "heapq.nlargest(n, iterable, key=None)"
    assert corpus["python/topics/assert"].title == 'assert: The "assert" statement'


def test_private_names_second_names_copies_and_short_texts_are_left_out(
    corpus: dict[str, RawDocument],
) -> None:
    parts = [part for name in corpus for part in name.replace("/", ".").split(".")]
    assert not [part for part in parts if part.startswith("_")]
    assert "python/bisect.bisect_right" in corpus
    assert "python/bisect.bisect" not in corpus, "it is the same function"
    texts = [" ".join(document.text.split()).casefold() for document in corpus.values()]
    assert len(texts) == len(set(texts))
    assert min(len(text.split()) for text in texts) >= MIN_WORDS


@pytest.mark.slow
def test_the_documents_are_the_same_in_every_process(corpus: dict[str, RawDocument]) -> None:
    program = "from tests.bench.python_docs import python_docs\nfor document in python_docs(): print(ascii(document))"
    assert printed(program, PYTHONHASHSEED="1") == [ascii(document) for document in corpus.values()]
