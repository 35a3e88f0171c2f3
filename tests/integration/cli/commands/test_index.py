"""`chorale index`, `delete` and `namespaces` as a person calls them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.integration.cli.commands.printed import complaint, document, output
from tests.support.command_line import Run
from tests.support.pipelines.forked_children import start_module
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.databases import empty_database
from tests.support.stores.one_engine import embedded_store
from tests.support.waiting import until
from tests.unit.ingest.test_parser_bombs import substitutions


def mixed_folder(folder: Path) -> Path:
    """A note, two rows, a file that nobody reads, and one that cannot be read."""
    (folder / "below").mkdir(parents=True)
    (folder / "note.md").write_text("# Roses\n\nRoses are cut in spring, before the first leaves come.\n")
    (folder / "rows.csv").write_text(
        "id,body,kind\n\u00e9,The lawn is mown in May,faq\nb,Moles are a nuisance,guide\n"
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
        *["-n", "garden", "--map", "text=body", "--map", "source_type=kind", "--prune"],
    )

    report = document(chorale(*ours, "--json"), 8)
    assert (report["namespace"], report["source"]) == ("garden", "garden")
    assert (report["added"], report["unchanged"], report["passages"]) == (3, 0, 3)
    faults = {skipped["path"]: skipped["is_fault"] for skipped in report["skipped"]}
    assert faults == {str(folder / "below" / "broken.txt"): True, str(folder / "picture.xyz"): True}
    # Readers were told, as soon as it was committed.
    assert pipeline.resources.generations.in_redis("garden") == report["generation"] == 1

    answer = document(chorale("search", "mowing the lawn", "-n", "garden", "-f", "source_type=faq", "--json"))
    assert [hit["document_id"] for hit in answer["questions"][0]["hits"]] == ["garden/rows.csv#\u00e9"]

    (folder / "note.md").unlink()
    again = chorale(*ours)
    counts = "0 added, 2 unchanged, 1 deleted · 0 passages · language en · generation 2"
    assert output(again, 8).startswith(f"garden ← garden: {counts}")
    assert "broken.txt: binary" in again.stderr

    # The other spelling of the same letter.
    gone = document(chorale("delete", "garden/rows.csv#e\u0301", "nobody", "-n", "garden", "--json"))
    assert gone == {"v": 1, "namespace": "garden", "deleted": 1, "absent": 1}
    assert pipeline.resources.generations.in_redis("garden") == 3


@pytest.mark.slow
def test_a_bomb_among_files_is_named_and_the_others_are_indexed(chorale: Run, tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    (folder / "a.txt").write_text("Asters flower in autumn.")
    (folder / "bomb.rst").write_bytes(substitutions())
    (folder / "z.md").write_text("# Zinnias\n\nZinnias flower in summer.")
    called = chorale("index", str(folder), "-n", "hostile", "--json", CHORALE_READ_MEMORY_MB="50")
    report = document(called, 8)
    assert (report["added"], report["passages"]) == (2, 2)
    (skipped,) = report["skipped"]
    assert (skipped["path"], skipped["is_fault"]) == (str(folder / "bomb.rst"), True)


def test_deactivate_names_the_stores_where_none_of_them_closes_namespaces(chorale: Run) -> None:
    refused = complaint(chorale("namespaces", "deactivate", "default"))
    assert "(kind weaviate can); there are: local (embedded)" in refused


@pytest.mark.slow
def test_an_empty_namespace_can_be_created_and_creating_it_again_changes_nothing(
    chorale: Run, pipeline: RunningPipeline, tmp_path: Path
) -> None:
    create = ("namespaces", "create", "notes")
    assert document(chorale(*create, "--json")) == {"v": 1, "namespace": "notes", "created": True}
    state = document(chorale("namespaces", "show", "notes", "--json"))
    embedder = pipeline.resources.encoder.embedder
    assert (state["documents"], state["manifest"]["embedder"]) == (0, embedder.fingerprint)
    assert document(chorale("search", "roses", "-n", "notes", "--json"))["questions"][0]["hits"] == []

    assert chorale("index", str(mixed_folder(tmp_path / "notes")), "-n", "notes").returncode == 8
    assert output(chorale(*create)) == "notes: there already, with 3 documents"
    assert document(chorale(*create, "--json")) == {"v": 1, "namespace": "notes", "created": False}
    assert "language is 'en', asked for 'it'" in complaint(chorale(*create, CHORALE_LANGUAGE="it"))
    wrong = complaint(chorale("namespaces", "create", "My Notes"), 2)
    assert "a namespace is 1-63 lower-case letters" in wrong
    assert chorale("namespaces", "delete", "notes", "--yes").returncode == 0


def test_a_namespace_that_is_made_again_gets_a_higher_generation_than_the_one_in_redis(
    chorale: Run, pipeline: RunningPipeline
) -> None:
    pipeline.redis.set("chorale:generation:restored", 41)
    assert chorale("namespaces", "create", "restored").stdout == "restored: made\n"
    assert pipeline.resources.writing_store.generation("restored") == 42
    assert pipeline.resources.generations.in_redis("restored") == 42
    assert chorale("namespaces", "delete", "restored", "--yes").returncode == 0


def test_a_namespace_is_shown_in_words(chorale: Run) -> None:
    assert chorale("namespaces", "create", "patients", "--local-only").returncode == 0
    lines = [" ".join(line.split()) for line in chorale("namespaces", "show", "patients").stdout.splitlines()]
    assert "local only yes" in lines
    assert not [line for line in lines if "None" in line]
    assert chorale("namespaces", "delete", "patients", "--yes").returncode == 0


def test_a_deleted_namespace_is_gone_for_the_cache_too(chorale: Run, pipeline: RunningPipeline) -> None:
    pipeline.index({"only": ("Tea", "Tea is drawn for three minutes.")}, namespace="drafts")
    search, delete = ("search", "tea", "-n", "drafts", "--json"), ("namespaces", "delete", "drafts")
    assert not document(chorale(*search))["cached"]
    # An answer enters the cache a moment after it is known.
    until(lambda: document(chorale(*search))["cached"])

    assert "add --yes" in complaint(chorale(*delete), 2)
    deleted = document(chorale(*delete, "--yes", "--json"))
    assert deleted == {"v": 1, "namespace": "drafts", "deleted": 1}

    assert chorale(*search).returncode == 4
    unknown = complaint(chorale("namespaces", "show", "drafts"))
    assert unknown.startswith("chorale: there is no namespace 'drafts' in /")
    assert "; there are: " in unknown


def test_the_error_for_an_unknown_namespace_names_the_server_of_the_documents(
    alone: Run, tmp_path: Path
) -> None:
    with empty_database("postgresql", tmp_path) as url:
        at = {"CHORALE_DATABASE_URL": url, "CHORALE_PIPELINE_FILE": "config/postgresql.toml"}
        unknown = complaint(alone("namespaces", "show", "drafts", **at))
    server = make_url(url)
    place = f"postgresql://{server.host}:{server.port}/{server.database}"
    assert unknown.strip() == f"chorale: there is no namespace 'drafts' in {place}; there are: none yet"


SECOND_BATCH_WAITS = """
import time
from inference.embedders import OnnxEmbedder

embed, batches = OnnxEmbedder.embed_passages, []

def embed_or_wait(self, texts, **options):
    if batches:
        time.sleep(60)
    batches.append(texts)
    return embed(self, texts, **options)

OnnxEmbedder.embed_passages = embed_or_wait
"""


@pytest.mark.slow
def test_an_interrupted_run_says_so_and_goes_on_when_repeated(alone: Run, tmp_path: Path) -> None:
    documents, folder, home = 130, tmp_path / "many", tmp_path / "home"
    folder.mkdir()
    for number in range(documents):
        (folder / f"{number:03}.txt").write_text(f"Rose number {number} is cut in spring.")
    index, complained = ("index", str(folder), "-n", "many", "--json"), tmp_path / "complained"
    store = embedded_store(home / "corpus")
    with complained.open("w") as err, Path(os.devnull).open("w") as out:
        environment = {**os.environ, "CHORALE_HOME": str(home), "COLUMNS": "100"}
        running = start_module(
            "cli",
            *index,
            environment=environment,
            out=out.fileno(),
            err=err.fileno(),
            preload=SECOND_BATCH_WAITS,
        )
        while not any(state.documents for state in store.namespaces()):
            assert running.poll() is None, complained.read_text()
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 8
    goes_on = "what was committed stays and can be searched; the same command goes on from there"
    # A slow machine has said before how far it is.
    assert complained.read_text().splitlines()[-1] == f"interrupted: {goes_on}"
    committed = store.namespaces()[0].documents
    assert 0 < committed < documents

    report = document(alone(*index))
    assert (report["added"], report["unchanged"]) == (documents - committed, committed)
    assert store.namespaces()[0].documents == documents


@pytest.mark.slow
def test_without_any_server_it_indexes_and_a_second_writer_or_other_settings_are_refused(
    alone: Run, tmp_path: Path
) -> None:
    index = ("index", str(mixed_folder(tmp_path / "garden") / "note.md"), "--source")
    assert alone(*index, "notes").returncode == 0
    (state,) = document(alone("namespaces", "list", "--json"))["namespaces"]
    assert (state["name"], state["documents"], state["published_generation"]) == ("default", 1, None)

    with embedded_store(tmp_path / "home" / "corpus").exclusive("default"):
        second = complaint(alone(*index, "notes"))
    busy = "namespace 'default' is being written by another process; wait for it or stop it"
    assert second == f"chorale: {busy}\n"

    other = complaint(alone(*index, "notes", CHORALE_LANGUAGE="it"))
    assert "language is 'en', asked for 'it'" in other
    assert "`chorale index --rebuild`" in other

    refused = complaint(alone(*index, "elsewhere", "--rebuild", CHORALE_LANGUAGE="it"))
    assert "with 1 document of other sources than 'elsewhere': add --yes" in refused
    assert alone(*index, "notes", "--rebuild", CHORALE_LANGUAGE="it").returncode == 0
    state = document(alone("namespaces", "show", "default", "--json"))
    assert (state["documents"], state["manifest"]["language"]) == (1, "it")
