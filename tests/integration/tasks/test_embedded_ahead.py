"""What a message brings is embedded before its namespace is held, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from assembly.pipeline import load_pipeline
from assembly.resources import Resources
from config.settings import Settings
from ingest.raw_documents import RawDocument
from models.errors import WriterBusy
from search.embedded.store import EmbeddedStore
from tasks.indexing import embedding_ahead as embedded_ahead
from tasks.indexing.embedding_ahead import EmbeddedAhead
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tests.support.models.hashing_embedder import HashingEmbedder


@pytest.fixture
def resources(tmp_path: Path) -> Resources:
    return Resources(Settings(home=tmp_path), load_pipeline(None), "redis://127.0.0.1:1/0")


def message(*names: str) -> list[RawDocument]:
    return [RawDocument(name, "task", name, f"{name} is cut in spring.") for name in names]


def test_a_message_that_waits_for_another_writer_is_embedded_meanwhile_and_not_again(
    resources: Resources,
) -> None:
    embedder = HashingEmbedder()
    ahead = EmbeddedAhead(embedder)
    documents = message("rose", "hedge")
    index_corpus(
        resources,
        SourceDocuments(message("rose"), "task"),
        namespace="garden",
        ahead=EmbeddedAhead(HashingEmbedder()),
    )

    writer = EmbeddedStore(resources.settings.corpus_dir)
    with writer.exclusive("garden"), pytest.raises(WriterBusy):
        index_corpus(resources, SourceDocuments(documents, "task"), namespace="garden", ahead=ahead)
    writer.close()
    # What the namespace has already is not embedded.
    assert embedder.embedded == ["hedge\nhedge is cut in spring."]
    report = index_corpus(resources, SourceDocuments(documents, "task"), namespace="garden", ahead=ahead)
    assert (report.added, report.unchanged, report.passages) == (1, 1, 1)
    assert len(embedder.embedded) == 1
    vectors = resources.store("local").vectors("garden", ["hedge#0"])
    assert vectors["hedge#0"] == pytest.approx(embedder.embed_questions(embedder.embedded)[0])


def test_the_rest_of_a_large_message_is_embedded_while_it_is_written(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashingEmbedder()
    ahead = EmbeddedAhead(embedder)
    # "rose is cut in spring." has 22 characters.
    monkeypatch.setattr(embedded_ahead, "AHEAD_CHARACTERS", 50)
    documents = message("rose", "yews", "pear")
    ahead.take(documents, {})
    assert [text.split("\n")[0] for text in embedder.embedded] == ["rose", "yews"]
    report = index_corpus(resources, SourceDocuments(documents, "task"), namespace="garden", ahead=ahead)
    assert (report.added, report.passages, len(embedder.embedded)) == (3, 3, 3)
