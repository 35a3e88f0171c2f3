"""Files of the embedded store are deleted, cut short or overwritten under running workers."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ingest.read import read_documents
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tests.support.command_line import in_process
from tests.support.faults.observers import order_by, seen
from tests.support.faults.serving import ALL, is_as_before
from tests.support.faults.waiting import is_whole
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.waiting import until

JUNK = b"this is no index " * 1_000

OTHERS = {"tram": ("Trams", "The tram leaves every ten minutes."), "bus": ("Buses", "The bus is late.")}


@pytest.fixture(scope="module")
def rebuilt(running: RunningPipeline) -> RunningPipeline:
    rebuild(running)
    return running


@pytest.fixture
def whole(rebuilt: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; rebuilds the index afterwards beside the running workers, which find everything again."""
    expected = order_by(rebuilt, ALL)
    yield rebuilt
    rebuild(rebuilt)
    is_as_before(rebuilt)
    assert order_by(rebuilt, ALL) == expected


def rebuild(pipeline: RunningPipeline, texts: dict[str, tuple[str, str]] = CORPUS) -> None:
    """Does the work of `chorale index --rebuild` in this process."""
    items = read_documents([documents(pipeline, texts)], source="tests")
    index_corpus(pipeline.resources, SourceDocuments(items, "tests"), namespace="default", rebuild=True)


def documents(pipeline: RunningPipeline, texts: dict[str, tuple[str, str]]) -> Path:
    file = pipeline.home / "documents.jsonl"
    rows = [{"id": name, "title": title, "text": text} for name, (title, text) in texts.items()]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def corpus_file(pipeline: RunningPipeline) -> Path:
    """Returns the corpus file after the log beside it was merged into it, so that nothing is read from the log."""
    file = pipeline.home / "corpus" / "corpus.db"
    if file.exists():
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file


def named(document_id: str) -> str:
    """Returns the document's name from its id."""
    return document_id.rpartition("#")[2]


def segment_files(pipeline: RunningPipeline) -> list[Path]:
    (index,) = (pipeline.home / "corpus" / "lexical").iterdir()
    return [file for file in index.iterdir() if file.is_file() and not file.name.startswith(".")]


def cut_short(file: Path) -> None:
    os.truncate(file, 0)


def overwrite(file: Path) -> None:
    """Overwrites the file in place, as a program does that opens it for writing."""
    with file.open("r+b") as opened:
        opened.write(JUNK[: max(1, file.stat().st_size)])


def replace(file: Path) -> None:
    """Replaces the file by another one of the same name."""
    junk = file.with_name("junk")
    junk.write_bytes(JUNK)
    junk.replace(file)


def set_aside(pipeline: RunningPipeline) -> set[Path]:
    """Returns the damaged files that were set aside, without their logs."""
    return {
        file
        for file in (pipeline.home / "corpus").glob("corpus.db.damaged-*")
        if not file.name.endswith(("-wal", "-shm"))
    }


def lexical(pipeline: RunningPipeline) -> None:
    shutil.rmtree(pipeline.home / "corpus" / "lexical")


def corpus(pipeline: RunningPipeline) -> None:
    for file in (pipeline.home / "corpus").glob("corpus.db*"):
        if file.is_file():
            file.unlink()


@pytest.mark.parametrize("delete", [lexical, corpus])
def test_an_index_deleted_under_workers_that_have_it_open_costs_nothing(
    whole: RunningPipeline, delete: Callable[[RunningPipeline], None]
) -> None:
    expected = order_by(whole, ALL)
    delete(whole)

    answer = seen(whole, timeout_s=20)

    assert (answer.status, answer.missing, answer.documents) == ("complete", [], expected)
    has_corpus = (whole.home / "corpus" / "corpus.db").exists()
    assert has_corpus == (delete is lexical), "a reader made an empty corpus"


@pytest.mark.parametrize(
    ("damage", "starts_anew"),
    [
        pytest.param(cut_short, False, id="cut short"),
        pytest.param(overwrite, False, id="overwritten"),
        pytest.param(cut_short, True, id="before a worker starts"),
    ],
)
def test_a_lexical_index_damaged_under_the_workers_costs_the_branches_that_read_it(
    whole: RunningPipeline, damage: Callable[[Path], None], starts_anew: bool
) -> None:
    expected = order_by(whole, ["vector"])
    for file in segment_files(whole):
        damage(file)
    if starts_anew:
        whole.kill("chorale.bm25")
        whole.start("chorale.bm25")
        whole.wait_ready(["chorale.bm25"])

    answer = seen(whole, timeout_s=20)

    missing = [("search.bm25", "bad_index"), ("search.hyde", "bad_index")]
    assert (answer.status, answer.missing, answer.documents) == ("degraded", missing, expected)
    assert "chorale index --rebuild" in answer.answer.degraded[0].detail


def test_a_corpus_that_was_replaced_by_junk_is_named_by_every_branch(whole: RunningPipeline) -> None:
    replace(corpus_file(whole))

    answer = seen(whole, timeout_s=20)

    assert (answer.status, answer.documents) == ("failed", [])
    assert answer.missing == [(f"search.{branch}", "bad_index") for branch in ALL]
    assert "chorale index --rebuild" in answer.answer.degraded[0].detail


@pytest.mark.parametrize("damage", [cut_short, overwrite])
def test_a_corpus_damaged_in_place_gives_no_wrong_hits(
    whole: RunningPipeline, damage: Callable[[Path], None]
) -> None:
    """A worker may still use data that it has read; data that it has to read now is reported as `bad_index`."""
    expected = order_by(whole, ALL)
    damage(corpus_file(whole))

    answer = seen(whole, timeout_s=20)

    assert {reason for _, reason in answer.missing} <= {"bad_index"}
    assert (answer.status == "complete") == (answer.missing == [])
    assert set(answer.documents) <= set(expected)


def test_workers_search_a_rebuilt_corpus_and_no_cached_answer_outlives_the_old_one(
    whole: RunningPipeline,
) -> None:
    client = whole.client()
    until(lambda: client.retrieve("ERR-4711", timeout_s=20).cached)
    shutil.rmtree(whole.home / "corpus")

    rebuild(whole, OTHERS)

    for _ in range(3):
        answer = client.retrieve("ERR-4711", timeout_s=20)
        assert {named(hit.document_id) for hit in answer.hits} <= set(OTHERS)
    assert answer.status == "complete"
    assert named(client.retrieve("tram", timeout_s=20).hits[0].document_id) == "tram"


def test_the_command_repairs_a_corpus_that_cannot_be_read(whole: RunningPipeline) -> None:
    """The damaged file is kept under another name."""
    before = set_aside(whole)
    replace(corpus_file(whole))
    words = ("index", str(documents(whole, OTHERS)), "--rebuild", "--json")
    ended = in_process(*words, **whole.environment)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["added"] == len(OTHERS)
    (file,) = set_aside(whole) - before
    assert file.read_bytes() == JUNK
    until(lambda: is_whole(whole))
    assert named(whole.client().retrieve("tram", timeout_s=20).hits[0].document_id) == "tram"
