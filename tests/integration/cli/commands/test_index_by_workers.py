"""`chorale index --where workers`: files are read where the command runs, and the workers of `chorale.index` do the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Queue

from monitoring.heartbeats import read_heartbeats
from tests.integration.cli.commands.printed import complaint, document
from tests.support.command_line import Run
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.waiting import until

pytestmark = pytest.mark.slow

SLOWLY = """
import os, pathlib, time
import tasks.indexing.namespace_writer

index_corpus = tasks.indexing.namespace_writer.index_corpus

def slowly(*args, namespace, **options):
    while namespace == "slow" and not pathlib.Path(os.environ["CHORALE_HOME"], "go on").exists():
        time.sleep(0.05)
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
    metadata = {"title": "another", "depth": [1, {"x": None}], "on": True}
    rows = [
        {"_id": "c", "title": "Only a title", "metadata": metadata},
        {"_id": "d", "text": "## Heading\n\ntext", "published_at": "no date", "url": 7, "empty": ""},
    ]
    files = {
        "note.md": "No heading, and yet Markdown: *roses* are cut in spring.\n",
        "plain.txt": "\ufeff# No heading, since this is plain text.\r\nMoles\x07 dig.\n",
        "page.html": "<title> The  lawn </title><p>It is mown in May.</p>",
        "rows.csv": "id,body,kind,year\na,The lawn is mown,faq,2024\nb,Moles dig,guide,2024-05\n",
        "below/rows.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows),
        "below/broken.txt": "\x00\x01\x02",
    }
    for name, text in files.items():
        (folder / name).write_text(text, newline="")
    return folder


def test_workers_index_the_same_documents_as_the_command_itself(chorale: Run, tmp_path: Path) -> None:
    folder = folder_of_everything(tmp_path / "garden")
    maps = ("--map=published_at=year", "--map=text=body", "--map=source_type=kind")
    names = ("added", "replaced", "unchanged", "deleted")

    def index(where: str) -> tuple[dict[str, Any], list[int]]:
        ours = ("index", str(folder), "-n", "garden", "--json", "--prune", *maps, "--where", where)
        report = document(chorale(*ours), 8)  # broken.txt
        return report, [report[name] for name in names]

    report, counts = index("workers")
    assert (counts, report["passages"]) == ([6, 0, 0, 0], 6)
    here, counts = index("here")
    assert (counts, here["skipped"]) == ([0, 0, 6, 0], report["skipped"])

    (folder / "note.md").unlink()
    (folder / "plain.txt").write_text("Moles dig deeper.")
    again, counts = index("workers")
    assert counts == [0, 1, 4, 1]
    assert again["generation"] > report["generation"]
    assert document(chorale("namespaces", "show", "garden", "--json"))["documents"] == 5


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
    assert complaint(never_declared) == complaint(declared)
    assert complaint(declared) == (
        "chorale: no worker takes anything from chorale.index at this command's broker: give it the "
        "CHORALE_BROKER_URL of the workers, which are alive\n"
    )


def test_a_heartbeat_names_the_messages_that_its_worker_has_taken(pipeline: RunningPipeline) -> None:
    def in_hand() -> set[str]:
        return {task for worker in read_heartbeats(pipeline.redis) for task in worker.tasks}

    client = pipeline.client()
    ticket = client.upsert("slow", [{"id": "a", "text": "Snails crawl."}])
    until(lambda: in_hand() == {ticket})
    (pipeline.home / "go on").touch()
    assert client.wait_visible(ticket).added == 1
    until(lambda: not in_hand())


def test_the_command_repeats_the_reason_of_workers_that_refuse_documents(
    chorale: Run, tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    note = ("index", str(file), "--source", "notes", "-n", "refused", "--where")
    file.write_text("Roses.")
    assert chorale(*note, "here", CHORALE_PASSAGE_PIECES="32").returncode == 0
    file.write_text("Roses and thorns.")
    refused = chorale(*note, "workers")
    assert (refused.returncode, "pieces=32 overlap=0', asked for" in refused.stderr) == (1, True)
