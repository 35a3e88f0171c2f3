"""Commands say once that a namespace is in a language which its encoder hardly knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.installation import Installation
from cli.namespace_states import language_lines
from config.settings import Settings
from models.texts.known_words import ADVICE
from tests.integration.cli.commands.printed import document, output
from tests.support.command_line import Called, Run
from tests.support.models.languages import ITALIAN

SENTENCE = "namespace 'italian': its encoder knows "


@pytest.fixture
def indexed(chorale: Run, tmp_path: Path) -> Iterator[Called]:
    """What the command printed when the Italian text was indexed; other tests of the folder do not see its namespace."""
    (tmp_path / "italian.txt").write_text(ITALIAN)
    yield chorale("index", str(tmp_path / "italian.txt"), "-n", "italian")
    assert chorale("namespaces", "delete", "italian", "--yes").returncode == 0


@pytest.mark.slow
def test_index_search_doctor_and_jobs_say_it_once(chorale: Run, indexed: Called, tmp_path: Path) -> None:
    assert (indexed.stderr.count(SENTENCE), indexed.stderr.count(ADVICE)) == (1, 1)

    answer = document(chorale("search", "disdetta", "-n", "italian", "--json"))
    assert [line.startswith(f"language: {SENTENCE}") for line in answer["warnings"]] == [True]
    assert output(chorale("search", "disdetta", "-n", "italian")).count("warning language: ") == 1
    assert document(chorale("search", "notice", "--json"))["warnings"] == []

    examined = output(chorale("doctor"))
    assert examined.count(SENTENCE) == 1
    assert "'default'" not in examined

    questions = tmp_path / "questions.csv"
    questions.write_text("id,text\n1,disdetta\n2,ferie\n")
    submitted = chorale("jobs", "submit", str(questions), "-n", "italian", "--watch", "--json")
    assert submitted.stderr.count(SENTENCE) == 1
    results = chorale("jobs", "results", json.loads(submitted.stdout)["job_id"], "--format", "jsonl")
    assert [json.loads(line)["warnings"] for line in results.stdout.splitlines()] == [[], []]


def test_nothing_is_said_where_there_are_no_documents_yet(tmp_path: Path) -> None:
    assert language_lines(Installation(Settings(home=tmp_path), None)) == []
    assert list(tmp_path.iterdir()) == []
