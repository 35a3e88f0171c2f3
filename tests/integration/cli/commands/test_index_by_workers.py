"""`chorale index --where workers`: files are read where the command runs, and the workers of `chorale.index` do the rest."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Queue

from monitoring.heartbeats import read_heartbeats
from tests.support.command_line import Called, Run, command
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.waiting import until

pytestmark = pytest.mark.slow

SLOWLY = """
import time
import tasks.indexing.namespace_writer

index_corpus = tasks.indexing.namespace_writer.index_corpus

def slowly(*args, namespace, **options):
    if namespace == "slow":
        time.sleep(3)
    return index_corpus(*args, namespace=namespace, **options)

tasks.indexing.namespace_writer.index_corpus = slowly
"""


@pytest.fixture(scope="module")
def pipeline() -> Iterator[RunningPipeline]:
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=["chorale.index"], preload=SLOWLY) as running,
    ):
        yield running


def folder_of_everything(folder: Path) -> Path:
    """What is read in different ways: with and without headings, as rows, as markup, with fields of many types."""
    (folder / "below").mkdir(parents=True)
    (folder / "note.md").write_text("No heading, and yet Markdown: *roses* are cut in spring.\n")
    (folder / "plain.txt").write_text("\ufeff# No heading, since this is plain text.\r\nMoles\x07 dig.\n")
    (folder / "page.html").write_text("<title> The  lawn </title><p>It is mown in May.</p>")
    (folder / "rows.csv").write_text(
        "id,body,kind,year\na,The lawn is mown,faq,2024\nb,Moles dig,guide,2024-05\n"
    )
    rows = [
        {
            "_id": "c",
            "title": "Only a title",
            "metadata": {"title": "another", "depth": [1, {"x": None}], "on": True},
        },
        {"_id": "d", "text": "## Heading\n\ntext", "published_at": "no date", "url": 7, "empty": ""},
    ]
    (folder / "below" / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "below" / "broken.txt").write_bytes(b"\x00\x01\x02")
    return folder


def reported(called: Called) -> dict[str, Any]:
    assert called.stdout, called.stderr
    return json.loads(called.stdout)  # type: ignore[no-any-return]


def test_workers_index_the_same_documents_as_the_command_itself(chorale: Run, tmp_path: Path) -> None:
    folder = folder_of_everything(tmp_path / "garden")
    maps = ("published_at=year", "text=body", "source_type=kind")
    ours = ("index", str(folder), "-n", "garden", "--json", "--prune", *(f"--map={one}" for one in maps))
    first = chorale(*ours, "--where", "workers")
    assert first.returncode == 8, first.stderr  # broken.txt
    report = reported(first)
    assert {name: report[name] for name in ("added", "replaced", "unchanged", "deleted", "passages")} == {
        "added": 6,
        "replaced": 0,
        "unchanged": 0,
        "deleted": 0,
        "passages": 6,
    }
    here = reported(chorale(*ours, "--where", "here"))
    assert (here["unchanged"], here["added"], here["replaced"]) == (6, 0, 0)
    assert here["skipped"] == report["skipped"]

    (folder / "note.md").unlink()
    (folder / "plain.txt").write_text("Moles dig deeper.")
    again = reported(chorale(*ours, "--where", "workers"))
    assert {name: again[name] for name in ("added", "replaced", "unchanged", "deleted")} == {
        "added": 0,
        "replaced": 1,
        "unchanged": 4,
        "deleted": 1,
    }
    assert again["generation"] > report["generation"]
    shown = json.loads(chorale("namespaces", "show", "garden", "--json").stdout)
    assert shown["documents"] == 5


def test_without_a_worker_it_says_which_one_to_start(alone: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Roses.")
    with RedisServer() as server:
        called = alone("index", str(tmp_path / "a.txt"), "--where", "workers", CHORALE_REDIS_URL=server.url)
    assert (called.returncode, called.stdout) == (1, "")
    assert "no worker of chorale.index is alive: start one with `chorale worker index`" in called.stderr


def test_workers_of_another_broker_are_not_waited_for(
    chorale: Run, pipeline: RunningPipeline, tmp_path: Path
) -> None:
    url = need("rabbitmq", "what becomes of documents that nobody takes from it is not tested")
    (tmp_path / "a.txt").write_text("Roses.")
    note = ("index", str(tmp_path / "a.txt"), "--where", "workers", "-n", "elsewhere")
    # A heartbeat names what its worker had in hand up to a second ago.
    until(lambda: not any(worker.tasks for worker in read_heartbeats(pipeline.redis)))
    with own_queues(url, ["chorale.index"]) as broker:
        never_declared = chorale(*note, CHORALE_BROKER_URL=url)
        Queue("chorale.index", channel=broker.channel()).declare()
        declared = chorale(*note, CHORALE_BROKER_URL=url)
    for called in (never_declared, declared):
        assert (called.returncode, called.stdout) == (1, "")
        assert called.stderr == (
            "chorale: no worker takes anything from chorale.index at this command's broker: give it the "
            "CHORALE_BROKER_URL of the workers, which are alive\n"
        )


def test_a_heartbeat_names_the_messages_that_its_worker_has_taken(pipeline: RunningPipeline) -> None:
    def in_hand() -> set[str]:
        return {task for worker in read_heartbeats(pipeline.redis) for task in worker.tasks}

    client = pipeline.client()
    ticket = client.upsert("slow", [{"id": "a", "text": "Snails crawl."}])
    until(lambda: in_hand() == {ticket})
    assert client.wait_visible(ticket).added == 1
    until(lambda: not in_hand())


def test_the_command_repeats_the_reason_of_workers_that_refuse_documents(
    chorale: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("Roses.")
    note = ("index", str(tmp_path / "a.txt"), "--source", "notes", "-n", "refused")
    assert chorale(*note, "--where", "here", CHORALE_LANGUAGE="it").returncode == 0
    (tmp_path / "a.txt").write_text("Roses and thorns.")
    refused = chorale(*note, "--where", "workers")
    assert refused.returncode == 1
    assert "language is 'it', asked for 'en'" in refused.stderr


def test_an_interrupted_command_leaves_its_messages_with_the_workers(
    pipeline: RunningPipeline, tmp_path: Path
) -> None:
    documents = 300
    rows = [{"id": str(number), "text": f"Page {number} is about moles."} for number in range(documents)]
    file = tmp_path / "pages.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    called = command("index", str(file), "-n", "pages", "--where", "workers", **pipeline.environment)
    store = pipeline.resources.writing_store

    def written() -> int:
        return next((one.documents for one in store.namespaces() if one.name == "pages"), 0)

    with subprocess.Popen(**called, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        until(lambda: bool(written()))
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == 8
    assert said == (
        "interrupted: what was sent stays with the workers; the same command goes on from there\n"
    )
    until(lambda: written() == documents)
