"""`chorale models`, and the encoder of a namespace on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.commands.printed import complaint, document, output
from tests.support.command_line import Run
from tests.support.pipelines.pipeline_files import LOCAL, branch

ENCODER = '[encoders.small]\nmodel = "sentence-transformers/all-MiniLM-L6-v2"\ndimensions = 64\n'


def test_known_models_are_listed_with_their_prompts(alone: Run) -> None:
    models = {model["name"]: model for model in document(alone("models", "--json"))["models"]}
    assert models["intfloat/multilingual-e5-small"]["prompts"] == ["query: ", "passage: "]
    assert models["sentence-transformers/all-MiniLM-L6-v2"]["dimensions"] == 384
    assert models["google/embeddinggemma-300m"]["ndcg"] is None


def test_a_namespace_is_made_with_the_language_of_the_documents_that_will_come(
    alone: Run, tmp_path: Path
) -> None:
    create = ("namespaces", "create", "statuti", "--language")
    assert "no analyser for language 'xx'; there are: ar, da, de" in complaint(alone(*create, "xx"), 2)
    assert output(alone(*create, "it", CHORALE_LANGUAGE="de")) == "statuti: made"
    note = tmp_path / "note.md"
    note.write_text("Bread is baked from flour.\n")
    assert alone("index", str(note), "-n", "statuti").returncode == 0
    manifest = document(alone("namespaces", "show", "statuti", "--json"))["manifest"]
    assert manifest["language"] == "it"
    assert "language is 'it', asked for 'fr'" in complaint(alone(*create, "fr"))


@pytest.mark.slow
def test_index_prints_the_language_of_the_documents_and_a_rebuild_changes_it(
    alone: Run, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.write_text('<html lang="da"><body><p>Halle 4, Tor 12</p></body></html>')
    to_norwegian = ("index", str(page), "-n", "regler", "--language", "no")
    assert " · language da · " in output(alone("index", str(page), "-n", "regler"))
    assert "language is 'da', asked for 'no'" in complaint(alone(*to_norwegian))
    assert " · language no · " in output(alone(*to_norwegian, "--rebuild"))
    assert document(alone("index", str(page), "-n", "regler", "--json"))["language"] == "no"
    assert "no analyser for language 'ja'" in complaint(
        alone("index", str(page), "-n", "other", "--language", "ja"), 2
    )


@pytest.mark.slow
def test_a_namespace_is_embedded_again_with_another_encoder(alone: Run, tmp_path: Path) -> None:
    file, note = tmp_path / "pipeline.toml", tmp_path / "note.md"
    file.write_text(LOCAL + ENCODER + branch("bm25") + branch("vector", "dense"))
    note.write_text("# Bread\nBread is baked from flour.\n")
    variables = {"CHORALE_PIPELINE_FILE": str(file)}
    assert alone("index", str(note), "-n", "docs", **variables).returncode == 0
    rebuild = ("namespaces", "rebuild", "docs", "--encoder")
    assert "no encoder 'e5' here; there are: default, small" in complaint(alone(*rebuild, "e5", **variables))
    rebuilt = output(alone(*rebuild, "small", **variables))
    assert rebuilt == "docs: built again with the encoder 'small': 1 document, 1 passage embedded"
    manifest = document(alone("namespaces", "show", "docs", "--json", **variables))["manifest"]
    assert (manifest["encoder"], manifest["dimension"]) == ("small", 64)
    other = complaint(alone("index", str(note), "-n", "docs", "--encoder", "default", **variables))
    assert "encoder is 'small', asked for 'default'" in other


def test_a_namespace_that_is_local_only_takes_no_encoder_behind_an_address(
    alone: Run, tmp_path: Path
) -> None:
    away = '[encoders.away]\nkind = "endpoint"\nurl = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
    file = tmp_path / "pipeline.toml"
    file.write_text(LOCAL + away + branch("bm25") + branch("vector", "dense"))
    variables = {"CHORALE_PIPELINE_FILE": str(file)}
    create = ("namespaces", "create", "patients", "--local-only")
    refused = complaint(alone(*create, "--encoder", "away", **variables))
    assert "the namespace is local_only, and the encoder 'away' is behind an address" in refused
    assert output(alone(*create, **variables)) == "patients: made"
    manifest = document(alone("namespaces", "show", "patients", "--json", **variables))["manifest"]
    assert (manifest["encoder"], manifest["local_only"]) == ("default", True)
