"""A namespace moves between the embedded store and PostgreSQL while worker processes search and write it."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from chorale_client.wire_names import Status

from models.batching import in_batches
from models.documents import Document, Passage
from search.documents.index_rows import IndexRow
from tasks.indexing.moving import move_namespace
from tests.support.command_line import in_process
from tests.support.pipelines.forked_children import start_module
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.postgresql_server import PostgresqlServer
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.limit_s(300)]

SERVER = '[stores.server]\nkind = "postgresql"\noptions = { url_env = "ENGINE_URL" }\n'
PATIENT = '[configurations.rrf]\nmethod = "rrf"\ntimeout_s = 30\ncomplete_scores = true\n'
FILLERS = 1_200
DIMENSION = 384


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="module")
def pipeline(
    database: PostgresqlServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningPipeline]:
    """The branches search the store `local`; each of the two is answered by a process of its own."""
    file = tmp_path_factory.mktemp("moving") / "pipeline.toml"
    file.write_text(LOCAL + SERVER + branch("bm25") + branch("vector", "dense") + PATIENT)
    with pytest.MonkeyPatch.context() as patch, RedisServer() as redis, ExitStack() as stack:
        patch.setenv("ENGINE_URL", database.url())
        running = stack.enter_context(RunningPipeline(redis, alone=["chorale.vector"], pipeline_file=file))
        texts = [{"id": name, "title": title, "text": text} for name, (title, text) in CORPUS.items()]
        client = running.client()
        assert client.wait_visible(client.upsert("docs", texts), wait_s=120).added == 5
        move_namespace(running.resources, "docs", ["local"])
        for some in in_batches(fillers(), 500):
            running.resources.writing_store.upsert("docs", some)
        yield running
        running.resources.writing_store.close()


def fillers() -> list[Document]:
    rows = np.random.default_rng(7).standard_normal((FILLERS, DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return [
        Document(
            document_id=f"filler/{n}",
            source="tests",
            title=f"Filler {n}",
            passages=(Passage(f"filler/{n}#0", 0, f"Kept for number {n} {n % 7} {n % 11}.", vector=row),),
            revision="1",
        )
        for n, row in enumerate(rows)
    ]


@contextmanager
def searched(running: RunningPipeline) -> Iterator[Counter[object]]:
    """Searches without pause, past the cache; counts the status and the best hit of each answer."""
    answers, ended = Counter[object](), threading.Event()

    def search() -> None:
        while not ended.is_set():
            answer = running.client().retrieve(
                "Who pays for the repairs of a flat?", namespace="docs", cache="bypass", timeout_s=30
            )
            answers[answer.status, answer.hits[0].document_id, *sorted(answer.hits[0].found_by)] += 1

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def wait_half_way(running: RunningPipeline, store: str) -> None:
    """Waits until the new index has some batches, and is not shown yet."""
    table = running.resources.documents.table
    build = table.find("docs")
    assert build is not None

    def begun() -> IndexRow | None:
        row = table.indexes(build).get(store)
        return row if row is not None and row.sequence > 0 else None

    row = until(begun, 120)
    assert row is not None
    assert not row.is_visible


def tables(database: PostgresqlServer) -> list[str]:
    """The tables of indexes."""
    rows = database.execute(
        "SELECT tablename FROM pg_tables WHERE tablename LIKE 'chorale_engine_%_postings'"
    )
    return [name for (name,) in rows]


def test_a_namespace_moves_to_postgresql_and_back_while_it_is_searched_and_written(
    pipeline: RunningPipeline, database: PostgresqlServer, tmp_path: Path
) -> None:
    client, store = pipeline.client(), pipeline.resources.writing_store
    unknown = in_process("namespaces", "rebuild", "docs", "--store", "qdrant", **pipeline.environment)
    assert unknown.returncode == 1, unknown.stderr
    assert "no store 'qdrant' takes documents here; there are: local, server" in unknown.stderr
    move = partial(
        start_module,
        *("cli", "namespaces", "rebuild", "docs", "--store", "server"),
        environment={**os.environ, **pipeline.environment},
    )
    with searched(pipeline) as answers, (tmp_path / "log").open("w+") as log:
        killed = move(out=log.fileno(), err=log.fileno())
        wait_half_way(pipeline, "server")
        killed.kill()
        killed.wait()
        assert tables(database) != []
        again = move(out=log.fileno(), err=log.fileno())
        tickets = [
            client.upsert("docs", [{"id": "new", "text": "A zeppelin was handed in during the move."}]),
            client.upsert("docs", [{"id": "bread", "text": "Bread is now baked from sourdough."}]),
            client.delete("docs", ["notice", "filler/1", f"filler/{FILLERS - 1}"]),
        ]
        outcomes = [client.wait_visible(ticket, wait_s=120) for ticket in tickets]
        assert [(done.error, done.unwritten) for done in outcomes] == [(None, {})] * 3
        code, output = again.wait(120), (tmp_path / "log").read_text()
        assert code == 0, output
        assert "docs: served by server, with 1,20" in output
        seen = answers.total()
        until(lambda: answers.total() >= seen + 6, 120)
    expected = (Status.COMPLETE, "repairs", "bm25", "vector")
    assert dict(answers) == {expected: answers.total()}
    assert len(store.revisions("docs")) == FILLERS + 3
    assert not any(store.verify("docs", mends=False).values())
    for text, name in {"zeppelin": "new", "sourdough": "bread"}.items():
        hits = client.retrieve(text, namespace="docs", timeout_s=30).hits
        assert (hits[0].document_id, "bm25" in hits[0].found_by) == (name, True)

    with searched(pipeline) as answers:
        move_namespace(pipeline.resources, "docs", ["local"])
        client.wait_visible(client.delete("docs", ["new"]), wait_s=120)
    assert dict(answers) == {expected: answers.total()}
    assert tables(database) == []
    assert not any(store.verify("docs", mends=False).values())
