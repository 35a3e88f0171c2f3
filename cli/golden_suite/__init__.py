"""The product's own golden suite: its questions, and the indexing of what they ask about.

That is the demo's corpus and the eight articles of this folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from cli.demo.python_docs import SOURCE, python_docs
from cli.progress import ProgressBar
from ingest.raw_documents import RawDocument, Skipped
from ingest.read import read_documents
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus

if TYPE_CHECKING:
    from rich.console import Console

    from wiring.resources import Resources

NAMESPACE = "golden"
QUESTIONS = Path(__file__).with_name("questions.yaml")
ARTICLES = Path(__file__).with_name("articles")


def index_suite(resources: Resources, console: Console) -> None:
    """Index what is new or changed in the namespace NAMESPACE; a document's id is `python/…` or `articles/….md`."""
    sources: dict[str, Iterable[RawDocument | Skipped]] = {
        SOURCE: python_docs(),
        ARTICLES.name: read_documents([ARTICLES], limits=resources.read_limits),
    }
    with ProgressBar(console) as bar:
        for source, items in sources.items():
            documents = list(items)
            bar.say(f"indexing {source}", total=len(documents))
            index_corpus(
                resources,
                SourceDocuments(documents, source, prune=True, total=len(documents)),
                namespace=NAMESPACE,
                progress=bar.show_indexing,
            )
