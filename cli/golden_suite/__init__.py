"""The product's own golden suite: its questions, and the indexing of what they ask about.

That is the demo's corpus and the eight articles of this folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cli.demo.python_docs import SOURCE, python_docs
from cli.views.progress import IndexingBar
from ingest.raw_documents import RawDocument, Skipped
from ingest.read import read_documents
from models.errors import UnknownNamespace
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import drop_namespace, index_corpus

if TYPE_CHECKING:
    from rich.console import Console

    from wiring.resources import Resources

NAMESPACE = "golden"
QUESTIONS = Path(__file__).with_name("questions.yaml")
ARTICLES = Path(__file__).with_name("articles")


@contextmanager
def indexed_suite(resources: Resources, console: Console, *, keep: bool = False) -> Iterator[None]:
    """Indexes what is new or changed in the namespace NAMESPACE; a document's id is `python/…` or `articles/….md`.

    A namespace that was not there before is removed with the block, unless `keep`.
    """
    is_kept = keep or any(state.name == NAMESPACE for state in resources.writing_store.namespaces())
    try:
        _index(resources, console)
        yield
    finally:
        if not is_kept:
            with suppress(UnknownNamespace):
                drop_namespace(resources, NAMESPACE)


def _index(resources: Resources, console: Console) -> None:
    sources: dict[str, Iterable[RawDocument | Skipped]] = {
        SOURCE: python_docs(),
        ARTICLES.name: read_documents([ARTICLES], limits=resources.read_limits),
    }
    with IndexingBar(console) as bar:
        for source, items in sources.items():
            documents = list(items)
            bar.say(f"indexing {source}", total=len(documents))
            index_corpus(
                resources,
                SourceDocuments(documents, source, prune=True, total=len(documents)),
                namespace=NAMESPACE,
                progress=bar.show,
            )
