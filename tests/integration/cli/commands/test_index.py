"""`chorale index`, `delete` and `namespaces` as a person calls them."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from search.embedded.store import EmbeddedStore
from tests.support.command_line import Run, command
from tests.support.pipelines.pipeline import RunningPipeline
from tests.unit.ingest.test_parser_bombs import substitutions


def mixed_folder(folder: Path) -> Path:
    """A note, two rows, a file that nobody reads, and one that cannot be read."""
    (folder / "below").mkdir(parents=True)
    (folder / "note.md").write_text("# Roses\n\nRoses are cut in spring, before the first leaves come.\n")
    (folder / "rows.csv").write_text(
        "id,body,kind\na,The lawn is mown in May,faq\nb,Moles are a nuisance,guide\n"
    )
    (folder / "picture.xyz").write_text("not ours")
    (folder / "below" / "broken.txt").write_bytes(b"\x00\x01\x02")
    return folder


def test_a_mixed_folder_is_indexed_searched_repeated_pruned_and_deleted(
    chorale: Run, pipeline: RunningPipeline, tmp_path: Path
) -> None:
    folder = mixed_folder(tmp_path / "garden")
    ours = (
        "index",
        str(folder),
        "-n",
        "garden",
        "--map",
        "text=body",
        "--map",
        "source_type=kind",
        "--prune",
    )

    first = chorale(*ours, "--json")
    assert first.returncode == 8, first.stderr
    report: dict[str, Any] = json.loads(first.stdout)
    assert {name: report[name] for name in ("namespace", "source", "added", "unchanged", "passages")} == {
        "namespace": "garden",
        "source": "garden",
        "added": 3,
        "unchanged": 0,
        "passages": 3,
    }
    faults = {one["path"]: one["is_fault"] for one in report["skipped"]}
    assert faults == {str(folder / "below" / "broken.txt"): True, str(folder / "picture.xyz"): False}
    # Readers were told, as soon as it was committed.
    assert pipeline.resources.generations.in_redis("garden") == report["generation"] == 1

    asked = chorale("search", "mowing the lawn", "-n", "garden", "-f", "source_type=faq", "--json")
    hits = json.loads(asked.stdout)["questions"][0]["hits"]
    assert [hit["document_id"] for hit in hits] == ["garden/rows.csv#a"]

    (folder / "note.md").unlink()
    again = chorale(*ours)
    assert again.returncode == 8
    assert again.stdout.startswith(
        "garden ← garden: 0 added, 2 unchanged, 1 deleted · 0 passages · generation 2"
    )
    assert "broken.txt: binary" in again.stderr

    gone = chorale("delete", "garden/rows.csv#a", "nobody", "-n", "garden", "--json")
    assert json.loads(gone.stdout) == {"v": 1, "namespace": "garden", "deleted": 1, "absent": 1}
    assert pipeline.resources.generations.in_redis("garden") == 3


@pytest.mark.slow
def test_a_bomb_among_files_is_named_and_the_others_are_indexed(
    chorale: Run, pipeline: RunningPipeline, tmp_path: Path
) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    (folder / "a.txt").write_text("Asters flower in autumn.")
    (folder / "bomb.rst").write_bytes(substitutions())
    (folder / "z.md").write_text("# Zinnias\n\nZinnias flower in summer.")
    called = chorale("index", str(folder), "-n", "hostile", "--json", CHORALE_READ_MEMORY_MB="50")
    assert called.returncode == 8, called.stderr
    report = json.loads(called.stdout)
    assert (report["added"], report["passages"]) == (2, 2)
    (skipped,) = report["skipped"]
    assert (skipped["path"], skipped["is_fault"]) == (str(folder / "bomb.rst"), True)


def test_deactivate_names_the_stores_where_none_of_them_closes_namespaces(
    chorale: Run, pipeline: RunningPipeline
) -> None:
    called = chorale("namespaces", "deactivate", "default")
    assert called.returncode == 1
    assert "(kind weaviate can); there are: local (embedded)" in called.stderr


@pytest.mark.slow
def test_an_empty_namespace_can_be_created_and_creating_it_again_changes_nothing(
    chorale: Run, pipeline: RunningPipeline, tmp_path: Path
) -> None:
    made = chorale("namespaces", "create", "notes", "--json")
    assert json.loads(made.stdout) == {"v": 1, "namespace": "notes", "created": True}, made.stderr
    shown = json.loads(chorale("namespaces", "show", "notes", "--json").stdout)
    embedder = pipeline.resources.embedder
    assert (shown["documents"], shown["manifest"]["embedder"]) == (0, embedder.fingerprint)
    asked = json.loads(chorale("search", "roses", "-n", "notes", "--json").stdout)["questions"][0]
    assert asked["hits"] == []

    assert chorale("index", str(mixed_folder(tmp_path / "notes")), "-n", "notes").returncode == 8
    again = chorale("namespaces", "create", "notes")
    assert (again.returncode, again.stdout) == (0, "notes: there already, with 1 document\n")
    again = chorale("namespaces", "create", "notes", "--json")
    assert json.loads(again.stdout) == {"v": 1, "namespace": "notes", "created": False}

    otherwise = chorale("namespaces", "create", "notes", CHORALE_LANGUAGE="it")
    assert otherwise.returncode == 1
    assert "language is 'en', asked for 'it'" in otherwise.stderr
    wrong = chorale("namespaces", "create", "My Notes")
    assert (wrong.returncode, "a namespace is 1-63 lower-case letters" in wrong.stderr) == (2, True)
    assert chorale("namespaces", "delete", "notes", "--yes").returncode == 0


def test_a_namespace_that_is_made_again_gets_a_higher_generation_than_the_one_in_redis(
    chorale: Run, pipeline: RunningPipeline
) -> None:
    pipeline.redis.set("chorale:generation:restored", 41)
    assert chorale("namespaces", "create", "restored").stdout == "restored: made\n"
    assert pipeline.resources.writing_store.generation("restored") == 42
    assert pipeline.resources.generations.in_redis("restored") == 42
    assert chorale("namespaces", "delete", "restored", "--yes").returncode == 0


def test_a_deleted_namespace_is_gone_for_the_cache_too(chorale: Run, pipeline: RunningPipeline) -> None:
    pipeline.index({"only": ("Tea", "Tea is drawn for three minutes.")}, namespace="drafts")
    answers = [json.loads(chorale("search", "tea", "-n", "drafts", "--json").stdout) for _ in range(2)]
    assert [answer["cached"] for answer in answers] == [False, True]

    refused = chorale("namespaces", "delete", "drafts")
    assert refused.returncode == 2
    assert "add --yes" in refused.stderr
    deleted = chorale("namespaces", "delete", "drafts", "--yes", "--json")
    assert json.loads(deleted.stdout) == {"v": 1, "namespace": "drafts", "deleted": 1}

    assert chorale("search", "tea", "-n", "drafts", "--json").returncode == 4
    unknown = chorale("namespaces", "show", "drafts")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("chorale: there is no namespace 'drafts' in /")
    assert "; there are: " in unknown.stderr


@pytest.mark.slow
def test_an_interrupted_run_says_so_and_goes_on_when_repeated(tmp_path: Path) -> None:
    documents = 200
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(documents):
        words = " ".join(f"word{number * position % 977}" for position in range(1, 14))
        (folder / f"{number:03}.txt").write_text(words)
    home = tmp_path / "home"
    called = command("index", str(folder), "-n", "many", CHORALE_HOME=str(home))
    store = EmbeddedStore(home / "corpus")
    with subprocess.Popen(**called, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        while not any(state.documents for state in store.namespaces()):
            assert running.poll() is None, running.communicate()
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == 8
    assert said == (
        "interrupted: what was committed stays and can be searched; the same command goes on from there\n"
    )
    committed = store.namespaces()[0].documents
    assert 0 < committed < documents

    called = command("index", str(folder), "-n", "many", "--json", CHORALE_HOME=str(home))
    repeated = subprocess.run(**called, capture_output=True, timeout=60)
    assert repeated.returncode == 0, repeated.stderr
    report = json.loads(repeated.stdout)
    assert (report["added"], report["unchanged"]) == (documents - committed, committed)
    assert store.namespaces()[0].documents == documents


@pytest.mark.slow
def test_without_any_server_it_indexes_and_a_second_writer_or_other_settings_are_refused(
    alone: Run, tmp_path: Path
) -> None:
    folder = mixed_folder(tmp_path / "garden")
    (folder / "below" / "broken.txt").unlink()
    note = str(folder / "note.md")
    assert alone("index", note, "--source", "notes").returncode == 0
    listed = json.loads(alone("namespaces", "list", "--json").stdout)
    assert [(one["name"], one["documents"], one["published_generation"]) for one in listed["namespaces"]] == [
        ("default", 1, None)
    ]

    with EmbeddedStore(tmp_path / "home" / "corpus").exclusive("default"):
        second = alone("index", note, "--source", "notes")
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr == (
        "chorale: namespace 'default' is being written by another process; wait for it or stop it\n"
    )

    other = alone("index", note, "--source", "notes", CHORALE_LANGUAGE="it")
    assert other.returncode == 1
    assert "language is 'en', asked for 'it'" in other.stderr
    assert "`chorale index --rebuild`" in other.stderr

    refused = alone("index", note, "--source", "elsewhere", "--rebuild", CHORALE_LANGUAGE="it")
    assert refused.returncode == 1
    assert "with 1 document of other sources than 'elsewhere': add --yes" in refused.stderr
    rebuilt = alone("index", note, "--source", "notes", "--rebuild", CHORALE_LANGUAGE="it")
    assert rebuilt.returncode == 0, rebuilt.stderr
    shown = json.loads(alone("namespaces", "show", "default", "--json").stdout)
    assert (shown["documents"], shown["manifest"]["language"]) == (1, "it")
