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


def test_a_document_knows_its_kind_its_module_and_its_page(corpus: dict[str, RawDocument]) -> None:
    method, builtin = corpus["python/collections.Counter.most_common"], corpus["python/builtins.str.casefold"]
    where = {"parent": "collections", "url": "library/collections.html"}
    assert (method.metadata, method.source) == ({"source_type": "method", **where}, "python")
    assert builtin.metadata == {"source_type": "builtin", "parent": "builtins"}
    assert corpus["python/topics/assert"].metadata == {"source_type": "topic"}
    assert corpus["python/topics/assert"].title == 'assert: The "assert" statement'


def test_a_title_is_the_name_with_the_signature(corpus: dict[str, RawDocument]) -> None:
    assert corpus["python/heapq.nlargest"].title == "heapq.nlargest(n, iterable, key=None)"
    assert corpus["python/subprocess.Popen.wait"].title == "subprocess.Popen.wait(timeout=None)"
    assert corpus["python/dataclasses.field"].title.startswith(
        "dataclasses.field(*, default=…, default_factory=…, "
    )
    assert corpus["python/datetime.datetime.fromtimestamp"].title == "datetime.datetime.fromtimestamp"


def test_functions_in_c_and_properties_have_their_documents(corpus: dict[str, RawDocument]) -> None:
    assert corpus["python/pickle.dumps"].metadata["source_type"] == "function"
    assert corpus["python/threading.Thread.daemon"].metadata["source_type"] == "method"


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


def test_a_topic_is_not_repeated_by_the_chapter_that_contains_it(corpus: dict[str, RawDocument]) -> None:
    sentence = 'The "while" statement is used for repeated execution'
    holders = [name for name, document in corpus.items() if sentence in " ".join(document.text.split())]
    assert holders == ["python/topics/while"]


@pytest.mark.slow
def test_the_documents_are_the_same_in_every_process(corpus: dict[str, RawDocument]) -> None:
    program = "from tests.bench.python_docs import python_docs\nfor document in python_docs(): print(ascii(document))"
    assert printed(program, PYTHONHASHSEED="1") == [ascii(document) for document in corpus.values()]
