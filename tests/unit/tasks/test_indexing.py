"""Indexing into the embedded store: what is embedded, what is committed, what is deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil, inf
from pathlib import Path
from typing import Any

import pytest

from inference.protocol import Embedder
from ingest.document_ids import content_hash
from ingest.raw_documents import RawDocument, Skipped
from ingest.read import read_documents
from ingest.split import splitter_name
from models.documents import Manifest, Matrix
from models.errors import ManifestMismatch
from models.not_indexed import NotIndexed
from search.protocol import Search
from tasks.indexing.batches import IndexingTarget, index_documents
from tasks.indexing.indexing_run import IndexReport, Progress, SourceDocuments
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.stores.one_engine import OneEngine, embedded_store

LONG = " ".join(f"word{n}" for n in range(60)) + "."


def manifest(**changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "splitter": splitter_name(32),
        "language": "en",
        "analyser": "test/1",
        "embedder": HashingEmbedder.fingerprint,
        "dimension": 16,
    }
    return Manifest(**{**values, **changes})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[OneEngine]:
    store = embedded_store(tmp_path / "store")
    yield store
    store.close()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in {"a.txt": "alpha", "b.txt": "beta", "c.md": f"# Gamma\n\n{LONG}"}.items():
        (folder / name).write_text(text)
    return folder


Index = Callable[..., IndexReport]


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
def index(store: OneEngine, embedder: Embedder) -> Index:
    def run(items: Iterable[RawDocument | Skipped] | Path, **options: Any) -> IndexReport:
        if isinstance(items, Path):
            items = read_documents([items], source="docs")
        source_options = {name: options.pop(name) for name in ("prune", "total") if name in options}
        documents = SourceDocuments(items, options.pop("source", "docs"), **source_options)
        run = {name: options.pop(name) for name in ("batch_documents", "progress") if name in options}
        defaults = {"store": store, "embedder": embedder, "namespace": "n", "manifest": manifest()}
        return index_documents(documents, IndexingTarget(**{**defaults, **options}), **run)

    return run


def raw(name: str, text: str = "text", **rest: Any) -> RawDocument:
    return RawDocument(f"docs/{name}", "docs", name, text, path=name, **rest)


def test_every_document_is_found_by_text_and_by_vector_and_a_second_run_embeds_nothing(
    index: Index, store: OneEngine, docs: Path, embedder: HashingEmbedder
) -> None:
    report = index(docs)
    assert (report.added, report.replaced, report.unchanged, report.deleted) == (3, 0, 0, 0)
    assert report.passages == len(embedder.embedded) > 3
    assert report.generation == store.generation("n") > 0
    (by_text,) = store.search_text("n", ["beta"], Search(depth=5))
    assert [hit.document_id for hit in by_text.hits] == ["docs/b.txt"]
    vectors = embedder.embed_questions([embedder.embedded[0]])
    best = store.search_vectors("n", vectors, Search(depth=5))[0].hits[0]
    assert (best.document_id, best.content_hash) == ("docs/a.txt", content_hash("a", "alpha"))
    assert best.score == pytest.approx(1, abs=1e-5)
    embedder.embedded.clear()
    second = index(docs)
    assert (second.added, second.replaced, second.unchanged, second.passages) == (0, 0, 3, 0)
    assert (second.generation, embedder.embedded) == (report.generation, [])


def test_a_changed_document_is_replaced_whole(index: Index, store: OneEngine, docs: Path) -> None:
    index(docs)
    (docs / "c.md").write_text("# Gamma\n\nshort now")
    report = index(docs)
    assert (report.replaced, report.unchanged, report.passages) == (1, 2, 1)
    assert store.search_text("n", ["word59"], Search(depth=5))[0].hits == ()
    assert len(store.search_text("n", ["short"], Search(depth=5))[0].hits) == 1
    index([raw("a", metadata={"source_type": "faq"})])
    assert index([raw("a", metadata={"source_type": "guide"})]).replaced == 1
    assert store.search_text("n", ["text"], Search(depth=1))[0].hits[0].source_type == "guide"


def test_prune_deletes_only_missing_documents_of_its_own_source(
    index: Index, store: OneEngine, docs: Path
) -> None:
    index(docs)
    index([RawDocument("other/a.txt", "other", "a", "alpha")], source="other")
    (docs / "a.txt").unlink()
    without_prune = index(docs)
    assert (without_prune.deleted, without_prune.gone) == (0, 1)
    report = index(docs, prune=True)
    assert (report.deleted, report.gone, report.unchanged, report.spared) == (1, 0, 2, 0)
    hits = store.search_text("n", ["alpha"], Search(depth=9))[0].hits
    assert [hit.document_id for hit in hits] == ["other/a.txt"]
    assert report.generation == store.generation("n")
    with pytest.raises(ValueError, match="of the source 'other', not of 'docs'"):
        index([RawDocument("other/a", "other", "a", "text", path="a")])


def test_prune_spares_documents_whose_file_cannot_be_read(index: Index, docs: Path) -> None:
    (docs / "d.jsonl").write_text('{"id": 1, "text": "one"}\n{"id": 2, "text": "two"}\n')
    index(docs)
    (docs / "a.txt").unlink()
    (docs / "b.txt").write_bytes(b"\xff")
    (docs / "d.jsonl").write_text('{"id": 1, "text": "one"}\n{broken\n')
    report = index(docs, prune=True)
    assert (report.deleted, report.spared) == (1, 2)
    assert report.has_faults


def test_prune_deletes_nothing_if_nothing_was_read(index: Index, docs: Path) -> None:
    index(docs)
    for file in docs.iterdir():
        file.unlink()
    report = index(docs, prune=True)
    assert (report.deleted, report.gone, report.spared) == (0, 0, 3)


def test_the_next_run_continues_where_an_interrupted_run_stopped(
    index: Index, store: OneEngine, embedder: HashingEmbedder
) -> None:
    """The documents that the run had to prune are still there, since its walk had no end."""
    documents = [raw(f"{n:02}", f"text {n}") for n in range(10)]
    index([raw("old")])

    def interrupted() -> Iterator[RawDocument]:
        yield from documents[:7]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index(interrupted(), batch_documents=3, prune=True)
    assert sorted(store.revisions("n", "docs")) == [*(f"docs/{n:02}" for n in range(6)), "docs/old"]
    embedder.embedded.clear()
    report = index(documents, batch_documents=3)
    assert (report.added, report.unchanged, len(embedder.embedded)) == (4, 6, 4)


def test_a_failed_batch_leaves_the_earlier_batches_committed(store: OneEngine, index: Index) -> None:
    class Failing(HashingEmbedder):
        def embed_passages(self, texts: Sequence[str], **options: Any) -> Matrix:
            if any("poison" in text for text in texts):
                raise RuntimeError("the model failed")
            return super().embed_passages(texts, **options)

    with pytest.raises(RuntimeError, match="the model failed"):
        index([raw("a"), raw("b", "poison"), raw("c")], embedder=Failing(), batch_documents=1)
    assert list(store.revisions("n", "docs")) == ["docs/a"]


def test_a_batch_ends_after_some_documents_and_after_many_characters(
    index: Index, store: OneEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch raises the generation by one."""
    assert index([raw(str(n)) for n in range(5)], batch_documents=2).generation == store.generation("n") == 3
    monkeypatch.setattr("tasks.indexing.indexing_run.BATCH_CHARACTERS", 10)
    assert index([raw("a", "longer than ten"), raw("b", "x")]).generation == 3 + 2


def test_an_id_that_comes_twice_is_reported_and_the_first_kept(index: Index, store: OneEngine) -> None:
    report = index([raw("a", "first"), raw("a", "second", line=2)])
    assert (report.added, report.skipped[0].line) == (1, 2)
    assert "was there before in this run" in report.skipped[0].why
    assert store.search_text("n", ["second"], Search(depth=1))[0].hits == ()


def test_another_manifest_is_refused_before_anything_is_read(index: Index, docs: Path) -> None:
    index(docs)

    def unread() -> Iterator[RawDocument]:
        raise AssertionError("read")
        yield

    with pytest.raises(ManifestMismatch):
        index(unread(), manifest=manifest(language="it"))


def groups(store: OneEngine) -> dict[str, str | None]:
    return {
        hit.document_id: hit.near_duplicate_group
        for ranking in store.search_text("n", ["word1", "short"], Search(depth=9))
        for hit in ranking.hits
    }


def untitled(name: str, text: str) -> RawDocument:
    return replace(raw(name, text), title="")


def test_near_duplicates_are_grouped_in_a_batch_and_across_batches_and_interrupted_runs(
    index: Index, store: OneEngine
) -> None:
    def interrupted() -> Iterator[RawDocument]:
        yield from (untitled("a", LONG), untitled("same", LONG.upper()))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index(interrupted(), batch_documents=2)
    index([untitled("b", LONG.upper()), untitled("c", "short")], batch_documents=1)
    assert groups(store) == {"docs/a": None, "docs/same": "docs/a", "docs/b": "docs/a", "docs/c": None}


@pytest.mark.parametrize("how", ["pruned", "dropped"])
def test_a_document_that_was_pruned_or_dropped_has_no_near_duplicates(
    index: Index, store: OneEngine, how: str
) -> None:
    index([raw("a", LONG)])
    if how == "pruned":
        index([raw("other", "Of something else.")], prune=True)
    else:
        store.drop("n")
        with store.documents.reading() as rows:
            assert rows.execute("SELECT count(*) FROM chorale_near_duplicate_band").fetchone() == (0,)
    index([raw("b", LONG)])
    assert groups(store)["docs/b"] is None
    assert "docs/a" not in groups(store)


def test_indexing_a_message_asks_the_store_only_for_its_documents(
    store: OneEngine, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_documents(*_: Any) -> None:
        raise AssertionError("all of a source, or all namespaces")

    index([raw("a", "old"), raw("b"), raw("c")])
    monkeypatch.setattr(store, "revisions", all_documents)
    monkeypatch.setattr(store, "namespaces", all_documents)
    report = index([raw("a", "new"), raw("b"), raw("d")])
    assert (report.added, report.replaced, report.unchanged) == (1, 1, 1)
    assert report.generation == store.generation("n") == 2


def test_progress_counts_documents_and_passages_up_to_the_total(index: Index) -> None:
    seen: list[Progress] = []
    documents = [raw(str(n)) for n in range(4)]
    index(documents, batch_documents=2, progress=seen.append, total=4)
    begun = [(0, 0), (0, 2), (2, 2)]
    assert [(each.documents, each.passages) for each in seen] == [*begun, (2, 2), (2, 4), (4, 4)]
    assert [each.batch for each in seen[:2]] == [(0, 2), (2, 2)], "a batch shows its passages when it begins"
    assert [each.remaining_s is None for each in seen] == [True, *[False] * 5]
    assert seen[-1].remaining_s == 0
    assert all(each.passages_per_s > 0 for each in seen[1:])


class InHundreds(HashingEmbedder):
    def embed_passages(
        self,
        texts: Sequence[str],
        *,
        progress: Callable[[int], None] | None = None,
        timeout_s: float = inf,
    ) -> Matrix:
        for at in range(0, len(texts), 100):
            if progress is not None:
                progress(len(texts[at : at + 100]))
        return super().embed_passages(texts)


def test_progress_within_a_large_document_counts_its_passages(index: Index) -> None:
    seen: list[Progress] = []
    sentences = [
        f"Sentence {n} says that the {n}th kite flies over the hill and the old mill.\n\n" for n in range(400)
    ]
    index(
        [raw("large", "".join(sentences)), raw("small")], progress=seen.append, total=4, embedder=InHundreds()
    )
    passages = seen[-1].passages
    embedding, committed = seen[1:-1], seen[-1]
    assert len(embedding) == ceil(passages / 100) > 2
    assert [each.batch for each in embedding] == [(each.passages, passages) for each in embedding]
    assert [each.documents for each in embedding] == [0] * len(embedding)
    assert [each.in_work for each in embedding] == [2 * each.passages / passages for each in embedding]
    # Half of the four documents are left when all of the batch is embedded.
    assert embedding[-1].remaining_s == pytest.approx(embedding[-1].passages / embedding[-1].passages_per_s)
    assert (committed.documents, committed.batch, committed.in_work) == (2, (0, 0), 0.0)


@pytest.mark.parametrize("as_items", [list, iter])
def test_the_first_documents_are_read_ahead_and_none_is_lost(as_items: Callable[[list[Any]], Any]) -> None:
    items: list[RawDocument | Skipped] = [RawDocument(f"d{n}", "docs", "", f"text {n}") for n in range(5)]
    items.insert(1, Skipped("torn.txt", NotIndexed.NOT_UTF8, "not text"))
    documents, first = SourceDocuments(as_items(items), "docs").with_first(3)
    assert [document.text for document in first] == ["text 0", "text 1"]
    assert list(documents.items) == items
    assert SourceDocuments([], "docs").with_first(3)[1] == []
