"""What an operator writes while documents that were handed in wait for the index worker."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from chorale_client import QueueFull
from chorale_client.keys import HEARTBEAT

from tests.support.command_line import Run, command
from tests.support.pipelines.pipeline import WORKER, RunningPipeline
from tests.support.stores.one_engine import embedded_store
from tests.support.waiting import until

QUEUE = "chorale.index"
OVERTAKEN = "overtaken: a later message has written or deleted it"


@contextmanager
def nobody_at_work(pipeline: RunningPipeline) -> Iterator[None]:
    worker = pipeline.processes[WORKER]
    worker.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        worker.send_signal(signal.SIGCONT)


def page(name: str, text: str) -> dict[str, Any]:
    return {"id": f"pages/{name}", "title": name, "text": text}


def texts(pipeline: RunningPipeline, namespace: str) -> dict[str, str]:
    store = embedded_store(pipeline.resources.settings.home / "corpus")
    ids = [f"{document_id}#0" for document_id in store.revisions(namespace, "pages")]
    return {passage.document_id: passage.text for passage in store.texts(namespace, ids).values()}


def test_no_older_message_brings_back_what_a_command_has_deleted(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    client = pipeline.client()
    client.wait_visible(client.upsert("deleted", [page("a", "Roses."), page("b", "Moles.")], source="pages"))
    with nobody_at_work(pipeline):
        waiting = [page("a", "Roses and thorns."), page("b", "Moles dig.")]
        ticket = client.upsert("deleted", waiting, source="pages")
        assert chorale("delete", "pages/a", "-n", "deleted").stdout == "deleted: 1 deleted\n"
    assert client.wait_visible(ticket).skipped == [f"pages/a: {OVERTAKEN}"]
    assert texts(pipeline, "deleted") == {"pages/b": "Moles dig."}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--prune", "--rebuild"])
def test_no_older_message_overwrites_what_a_command_has_indexed(
    pipeline: RunningPipeline, chorale: Run, tmp_path: Path, how: str
) -> None:
    client, namespace = pipeline.client(), f"here{how}"
    before = [page("same.txt", "Moss."), page("new.txt", "Roses."), page("gone.txt", "Moles.")]
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "same.txt").write_text("Moss.")
    ours = ("index", str(folder), "-n", namespace, "--where", "here", "--json")
    assert chorale(*ours).returncode == 0
    client.wait_visible(client.upsert(namespace, before[1:], source="pages"))
    with nobody_at_work(pipeline):
        older = [one | {"text": "What stood there before."} for one in before]
        ticket = client.upsert(namespace, older, source="pages")
        (folder / "new.txt").write_text("Roses and thorns.")
        called = chorale(*ours, how)
        assert (called.returncode, json.loads(called.stdout)["source"]) == (0, "pages"), called.stderr
    expected = {"pages/same.txt", "pages/new.txt"} | ({"pages/gone.txt"} if how == "--prune" else set())
    assert set(client.wait_visible(ticket).skipped) == {f"{one}: {OVERTAKEN}" for one in expected}
    present = texts(pipeline, namespace)
    assert (present["pages/same.txt"], present["pages/new.txt"]) == ("Moss.", "Roses and thorns.")


@pytest.mark.slow
def test_indexing_by_workers_waits_for_memory_in_redis(pipeline: RunningPipeline, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Roses.")
    client, redis = pipeline.client(), pipeline.redis
    index = command("index", str(tmp_path), "-n", "room", "--where", "workers", **pipeline.environment)
    redis.config_set("maxmemory", redis.info("memory")["used_memory"] + 6_000_000)
    try:
        with nobody_at_work(pipeline):
            # The heartbeat of a worker that hangs for longer would expire, and nobody would wait for that worker.
            redis.persist(HEARTBEAT + WORKER)
            # Nothing to index in them: they only wait.
            with suppress(QueueFull):
                while True:
                    client.upsert("full", [{"id": "", "text": "x" * 100_000}])
            with subprocess.Popen(**index, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
                with pytest.raises(subprocess.TimeoutExpired):
                    running.wait(6)
                assert redis.llen(QUEUE) > 10
                pipeline.processes[WORKER].send_signal(signal.SIGCONT)
                printed, complained = running.communicate(timeout=60)
        # The command also prints its progress where no terminal is.
        assert (running.returncode, "1 added" in printed) == (0, True), complained
        until(lambda: redis.llen(QUEUE) == 0)
    finally:
        redis.config_set("maxmemory", "0")
