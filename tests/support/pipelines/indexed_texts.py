"""Texts of tests that are indexed as the command indexes documents: split, embedded and compared with each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.raw_documents import RawDocument
from tasks.indexing.indexing_run import IndexReport, SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tasks.wiring.resources import Resources
from tests.support.pipelines.pipeline import CORPUS


def index_texts(
    resources: Resources,
    namespace: str,
    texts: Mapping[str, tuple[str, str]] = CORPUS,
    *,
    source: str = "tests",
    **options: Any,
) -> IndexReport:
    """`texts` are titles and texts by document id; `options` are those of `index_corpus`."""
    documents = [
        RawDocument(document_id=name, source=source, title=title, text=text)
        for name, (title, text) in texts.items()
    ]
    return index_corpus(resources, SourceDocuments(documents, source), namespace=namespace, **options)
