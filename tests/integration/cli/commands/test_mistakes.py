"""What an operator gets wrong about this machine is one sentence, with the path; never a traceback."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from pathlib import Path

import pytest

import tasks.indexing.namespace_writer
from cli.local.processes import check_stores
from config.settings import Settings
from models.errors import NotConfigured
from tasks.wiring.pipeline import load_pipeline
from tests.integration.cli.commands.printed import complaint, output
from tests.support.command_line import Run, as_process, command
from tests.support.pipelines.pipeline_files import branch


def test_a_home_or_a_backup_that_cannot_be_written_is_named(alone: Run, tmp_path: Path) -> None:
    for home, why in (("/proc/x", "No such file or directory"), ("/etc/passwd", "it is no folder")):
        sentence = complaint(alone("up", CHORALE_HOME=home))
        assert (
            sentence == f"chorale: CHORALE_HOME={home} cannot be used ({why}): set it to a folder of yours\n"
        )
    (tmp_path / "home").mkdir()
    sentence = complaint(alone("backup", "/proc/bk"))
    assert sentence == "chorale: no backup was written to /proc/bk: No such file or directory\n"


def test_an_unexpected_error_is_a_sentence_that_names_the_file_with_its_details(
    alone: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(tasks.indexing.namespace_writer, "index_corpus", fails)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "note.md").write_text("Roses are cut in spring.")
    sentence = complaint(alone("index", str(tmp_path / "note.md"), "--where", "here"))
    (details,) = tmp_path.glob("chorale-error-*.log")
    assert sentence == f"chorale: an unexpected error; its details are in {details}\n"
    assert details.read_text().endswith("AssertionError\n")
    assert details.stat().st_mode & 0o077 == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [
        ("namespaces list --json", ""),
        ("namespaces list --json", "1"),
        ("namespaces list", ""),
        ("--help", ""),
    ],
)
def test_an_output_that_takes_nothing_is_a_sentence(tmp_path: Path, arguments: str, unbuffered: str) -> None:
    called = command(*arguments.split(), CHORALE_HOME=str(tmp_path), PYTHONUNBUFFERED=unbuffered)
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(**called, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr == "chorale: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.slow)])
def test_a_closed_pipe_ends_the_output_without_a_message(tmp_path: Path, unbuffered: str) -> None:
    called = command("namespaces", "list", "--json", CHORALE_HOME=str(tmp_path), PYTHONUNBUFFERED=unbuffered)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        ended = subprocess.run(**called, stdout=closed, stderr=subprocess.PIPE, timeout=60)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.slow
def test_a_character_that_the_terminal_cannot_show_is_a_question_mark(tmp_path: Path) -> None:
    called = as_process("doctor", CHORALE_HOME=str(tmp_path), PYTHONIOENCODING="ascii")
    assert "chorale up" in called.stdout
    # The arrow before what mends it.
    assert "? " in called.stdout
    assert called.stderr == ""


FAR = """
[stores.far]
kind = "elasticsearch"
options = { url = "http://127.0.0.1:1" }
[branches.bm25]
kind = "bm25"
group = "lexical"
store = "far"
"""
NEAR = """
[stores.local]
kind = "embedded"
[branches.vector]
kind = "vector"
group = "dense"
store = "local"
"""
AWAY = "Elasticsearch at http://127.0.0.1:1 cannot be reached (Connection error): start it, or check the store's url"


@pytest.mark.slow
def test_a_partly_deleted_namespace_can_be_deleted_again(alone: Run, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(FAR + NEAR)
    assert alone("namespaces", "create", "law", CHORALE_PIPELINE_FILE=str(file)).returncode == 0
    for _ in range(2):
        called = alone("namespaces", "delete", "law", "--yes", CHORALE_PIPELINE_FILE=str(file))
        assert complaint(called) == (
            f"chorale: {AWAY}; other stores may have deleted their part of 'law': when that is mended, run this again\n"
        )


def test_prune_takes_times_longer_than_the_clock(chorale: Run) -> None:
    pruned = output(chorale("audit", "prune", "--older-than", "99999999999999d", "--yes"))
    assert pruned == "0 requests older than 99999999999999d: deleted from the trail"


def test_up_starts_nothing_without_the_address_of_a_store_that_its_workers_open(tmp_path: Path) -> None:
    file, home = tmp_path / "pipeline.toml", tmp_path / "home"
    file.write_text(
        '[stores.sql]\nkind = "postgresql"\noptions = { url_env = "SQL_URL" }\n' + branch("bm25", store="sql")
    )
    variables = {"CHORALE_HOME": str(home), "CHORALE_PIPELINE_FILE": str(file)}
    assert complaint(as_process("up", **variables)) == (
        "chorale: the store 'sql' needs an address: the variable SQL_URL is not set; "
        "it is postgresql://USER:PASSWORD@HOST/DATABASE\n"
    )
    assert not home.exists()

    pipeline = load_pipeline(file)
    elsewhere = Settings(home=home, worker_processes={"bm25": 0, "fusion": 0, "index": 0})
    check_stores(elsewhere, pipeline)
    for queue in ("bm25", "fusion", "index"):
        counts = elsewhere.worker_processes | {f"chorale.{queue}": 1}
        with pytest.raises(NotConfigured, match="SQL_URL"):
            check_stores(Settings(home=home, worker_processes=counts), pipeline)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["up", "doctor"])
def test_a_hostile_pipeline_file_is_refused_in_less_than_twice_the_time_of_a_harmless_one(
    tmp_path: Path, name: str
) -> None:
    def cost_s(file_name: str, text: str) -> float:
        file = tmp_path / file_name
        file.write_text(text)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        sentence = complaint(
            as_process(name, CHORALE_HOME=str(tmp_path), CHORALE_PIPELINE_FILE=str(file)), code=2
        )
        assert sentence.startswith(f"chorale: {file}:1: not valid ") or "more than 32 parts" in sentence
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime

    hostile = {
        "brackets.yaml": f"a: {'[' * 5_000}",
        "dots.toml": f"{'a.' * 40_000}a = 1",
        "quotation marks.toml": '\\"' * 50_000,
    }
    harmless_s = cost_s("harmless.yaml", "a: [")
    costs_s = {file_name: cost_s(file_name, text) for file_name, text in hostile.items()}
    assert max(costs_s.values()) < 2 * harmless_s, (harmless_s, costs_s)
