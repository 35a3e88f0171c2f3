"""The demo's corpus: what is in it, what is left out, and that it is the same each time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from cli.demo.python_docs import MIN_WORDS, as_markdown, python_docs
from ingest.raw_documents import RawDocument

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def corpus() -> dict[str, RawDocument]:
    return {found.document_id: found for found in python_docs()}


def test_the_corpus_has_every_kind_and_a_size_that_a_demo_can_index(corpus: dict[str, RawDocument]) -> None:
    kinds = Counter(found.metadata["source_type"] for found in corpus.values())
    assert kinds.keys() == {"module", "class", "function", "method", "topic", "builtin"}
    assert all(number >= 30 for number in kinds.values()), kinds
    assert 700 <= len(corpus) <= 1_600
    assert sum(len(found.text.split()) for found in corpus.values()) < 120_000


@pytest.mark.parametrize(
    ("document_id", "title", "metadata"),
    [
        (
            "python/heapq",
            "heapq",
            {"source_type": "module", "parent": "heapq", "url": "library/heapq.html"},
        ),
        (
            "python/collections.Counter.most_common",
            "collections.Counter.most_common(n=None)",
            {"source_type": "method", "parent": "collections", "url": "library/collections.html"},
        ),
        (
            "python/builtins.str.casefold",
            "str.casefold()",
            {"source_type": "builtin", "parent": "builtins"},
        ),
        ("python/topics/assert", 'assert: The "assert" statement', {"source_type": "topic"}),
    ],
)
def test_titles_are_qualified_names_with_their_signature(
    corpus: dict[str, RawDocument], document_id: str, title: str, metadata: dict[str, str]
) -> None:
    found = corpus[document_id]
    assert (found.title, found.metadata, found.source) == (title, metadata, "python")


def test_private_names_copies_and_short_texts_are_left_out(corpus: dict[str, RawDocument]) -> None:
    parts = [part for name in corpus for part in name.replace("/", ".").split(".")]
    assert not [part for part in parts if part.startswith("_")]
    texts = [" ".join(found.text.split()).casefold() for found in corpus.values()]
    assert len(texts) == len(set(texts))
    assert min(len(text.split()) for text in texts) >= MIN_WORDS
    assert not [name for name in corpus if ".tests" in name or ".test_" in name]


def test_a_section_that_is_a_topic_of_its_own_is_not_repeated_in_its_chapter(
    corpus: dict[str, RawDocument],
) -> None:
    sentence = "The `while` statement is used for repeated execution".replace("`", '"')
    holders = [name for name, found in corpus.items() if sentence in " ".join(found.text.split())]
    assert holders == ["python/topics/while"]
    assert 'The "match" statement' in corpus["python/topics/compound"].text


@pytest.mark.slow
def test_the_order_is_the_same_in_every_process(corpus: dict[str, RawDocument]) -> None:
    program = (
        "from cli.demo.python_docs import python_docs\nfor found in python_docs(): print(found.document_id)"
    )
    for seed in ("1", "2"):
        said = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout.splitlines() == list(corpus)


def test_no_module_is_imported_for_its_docstrings() -> None:
    program = (
        "import sys\n"
        "from cli.demo.python_docs import MODULES, python_docs\n"
        "before = set(sys.modules)\n"
        "names = [found.document_id for found in python_docs(['wave', 'turtle', 'antigravity'])]\n"
        "assert any(name.startswith('python/turtle.') for name in names)\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["pydoc_data", "pydoc_data.topics"]


def test_underlined_headings_become_markdown() -> None:
    text = "Values\n******\n\nText.\n\nNumbers\n=======\n\na ::= b\n\n   x\n   ---\n\nLast\n----\n"
    assert as_markdown(text) == "# Values\n\nText.\n\n## Numbers\n\na ::= b\n\n   x\n   ---\n\n### Last"
