"""Documents go into Elasticsearch and Weaviate at once, from a message, and `chorale verify` mends what is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.raw_documents import RawDocument
from search.protocol import Search
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tasks.indexing.report import IndexReport
from tests.support.pipelines.pipeline import PYTHONPATH, ROOT, RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.stores.two_engines import shared_engines, texts_and_vectors

WIKI = [
    {"id": "wiki/tea", "title": "Tea", "text": "Green tea is brewed at eighty degrees."},
    {"id": "wiki/rent", "title": "Rent", "text": "The rent is due on the third working day."},
    {"id": "wiki/nothing"},
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    file = tmp_path_factory.mktemp("clustered") / "pipeline.toml"
    with shared_engines(texts=False) as (texts, vectors), RedisServer() as server:
        file.write_text(texts_and_vectors(texts, vectors))
        with RunningPipeline(server, pipeline_file=file, queues=["chorale.index"]) as running:
            yield running
            running.resources.writing_store.close()


def shown(running: RunningPipeline, namespace: str, *, source: str = "task") -> list[list[str]]:
    """The ids that each store shows."""
    clustered = running.resources.clustered
    return [sorted(store.revisions(namespace, source)) for store in clustered.stores.values()]


def verified(running: RunningPipeline, *arguments: str) -> tuple[int, dict[str, object]]:
    return commanded(running, "verify", *arguments)


def commanded(running: RunningPipeline, *arguments: str, **environment: str) -> tuple[int, dict[str, object]]:
    called = subprocess.run(
        [sys.executable, "-m", "cli", *arguments, "--json"],
        env={**os.environ, **running.environment, "PYTHONPATH": PYTHONPATH, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert called.stdout, called.stderr
    return called.returncode, json.loads(called.stdout)


def test_what_is_handed_in_is_in_both_stores_and_what_is_lost_is_mended(running: RunningPipeline) -> None:
    client = running.client()
    done = client.wait_visible(client.upsert("wiki", WIKI), wait_s=60)
    assert (done.added, done.error, done.unwritten) == (2, None, {})
    assert done.skipped == ["document 3: no text: 'text' and 'title' are missing or empty"]
    assert not done.is_whole
    assert shown(running, "wiki") == [["wiki/rent", "wiki/tea"]] * 2
    stores = running.resources.clustered.stores.values()
    assert running.resources.generations.in_redis("wiki") == done.generation == 1
    assert [store.generation("wiki") for store in stores] == [1, 1]

    again = client.wait_visible(client.upsert("wiki", WIKI[:2]), wait_s=60)
    assert (again.unchanged, again.added, again.generation) == (2, 0, 1)
    gone = client.wait_visible(client.delete("wiki", ["wiki/rent", "unknown"]), wait_s=60)
    assert (gone.deleted, gone.generation, gone.is_whole) == (1, 2, True)
    assert shown(running, "wiki") == [["wiki/tea"]] * 2

    running.resources.store("vectors").delete("wiki", ["wiki/tea"])  # type: ignore[attr-defined]
    code, told = verified(running, "-n", "wiki", "--check")
    assert (code, told["stores"]["vectors"]["missing"]) == (8, ["wiki/tea"])  # type: ignore[index]
    code, told = verified(running, "-n", "wiki")
    assert (code, told["unwritten"]) == (0, {})
    assert shown(running, "wiki") == [["wiki/tea"]] * 2
    assert not any(running.resources.clustered.verify("wiki", mends=False).values())


def test_the_command_reads_files_and_the_workers_have_the_model(
    running: RunningPipeline, tmp_path: Path
) -> None:
    (tmp_path / "tea.txt").write_text("Green tea is brewed at eighty degrees.")
    index = ("index", str(tmp_path), "-n", "read", "--source", "files", "--prune")
    code, told = commanded(running, *index, CHORALE_EMBEDDER=str(tmp_path / "no-model"))
    assert (code, told["added"], told["passages"]) == (0, 1, 1)
    assert shown(running, "read", source="files") == [["files/tea.txt"]] * 2
    (tmp_path / "tea.txt").rename(tmp_path / "coffee.txt")
    code, told = commanded(running, *index)
    assert (code, told["added"], told["deleted"]) == (0, 1, 1)
    assert shown(running, "read", source="files") == [["files/coffee.txt"]] * 2


def test_a_rebuild_brings_the_new_documents_into_both_stores_and_every_search_finds_those_that_stay(
    running: RunningPipeline,
) -> None:
    resources = running.resources
    texts, vectors = resources.store("texts"), resources.store("vectors")
    question = resources.embedder.questions.embed_questions(["page"])

    def index(*names: str, rebuild: bool = False) -> IndexReport:
        items = [RawDocument(f"task/{name}", "task", name, f"Page {name}.") for name in names]
        return index_corpus(resources, SourceDocuments(items, "task"), namespace="anew", rebuild=rebuild)

    def found() -> list[set[str]]:
        rankings = texts.search_text("anew", ["page"], Search(depth=50, timeout_s=30))
        rankings += vectors.search_vectors("anew", question, Search(depth=50, timeout_s=30))
        return [{hit.document_id for hit in ranking.hits} for ranking in rankings]

    staying = [f"stays{n}" for n in range(20)]
    index("goes", *staying)
    seen, wrong, ended = list[set[str]](), list[Exception](), threading.Event()

    def search() -> None:
        while not ended.is_set():
            try:
                seen.extend(found())
            except Exception as error:
                wrong.append(error)

    searching = threading.Thread(target=search)
    searching.start()
    try:
        report = index("comes", *staying, rebuild=True)
    finally:
        ended.set()
        searching.join(60)
    assert wrong == []
    before = {"task/goes", *(f"task/{name}" for name in staying)}
    after = before - {"task/goes"} | {"task/comes"}
    assert seen[0] == before
    assert [one for one in seen if one not in (before, after)] == []
    assert found() == [after, after]

    assert (report.added, report.unwritten) == (21, {})
    assert shown(running, "anew") == [sorted(after)] * 2
    stores = resources.clustered.stores.values()
    assert {store.generation("anew") for store in stores} == {report.generation}
    assert resources.generations.in_redis("anew") == report.generation > 1
