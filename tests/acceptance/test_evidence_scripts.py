"""Every script of docs/evidence runs, on small data; those of docs/evidence/celery are in tests/faults/test_celery_scripts.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipelines.forked_children import run_module
from tests.support.pipelines.pipeline import ROOT, RunningPipeline

RUN = {
    "near_duplicates": ("{folder} 0.6", "threshold 0.6, long texts: precision 1.000"),
    "reranked": ("2 5 int8-150", "int8-150: p50 "),
    "other_statements": ("12", "precision 1.000"),
    "sampled_collection": ("{folder} 1 3 {folder}/sample", "1 questions, 1 relevant documents of 3"),
    "engines": ("{folder} --limit 2", "vectors: p50 "),
    "many": ("0.002 1 5", "many: started in "),
    "checkouts": ("{folder}/corpus.jsonl 2", "the last beside it +0.0 % [+0.0, +0.0]"),
}
"""Arguments by script, and what it prints."""
WRITE_A_PAGE = {"capacity", "cells", "latency", "scaling"}
"""Scripts whose pages tests/architecture/test_computed_pages.py compares."""
WITH_OTHER_LIBRARIES = {"peers"}
"""Scripts whose libraries have an environment of their own."""
SUBJECTS = ("the notice period", "a deposit", "a leaking roof", "an heir", "a parking space")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A collection of five documents and two questions with known answers."""
    folder = tmp_path / "small"
    (folder / "qrels").mkdir(parents=True)
    corpus = [
        {
            "_id": f"d{number}",
            "title": f"About {subject}",
            "text": " ".join(
                f"Rule {number}-{line} of {subject} says what {subject} is." for line in range(12)
            ),
        }
        for number, subject in enumerate(SUBJECTS)
    ]
    questions = [
        {
            "_id": f"q{number}",
            "text": f"what is {SUBJECTS[number]}?",
            "metadata": {"answer": SUBJECTS[number]},
        }
        for number in range(2)
    ]
    for name, rows in (("corpus", corpus), ("queries", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td1\t1\n")
    return folder


def test_every_script_has_a_test() -> None:
    scripts = {path.stem for path in (ROOT / "docs/evidence").glob("*.py")}
    assert scripts == {*RUN, *WRITE_A_PAGE, *WITH_OTHER_LIBRARIES}


def test_every_script_finds_what_it_imports() -> None:
    program = "".join(f"import docs.evidence.{script}\n" for script in sorted({*RUN, *WRITE_A_PAGE}))
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.long
@pytest.mark.limit_s(400)
@pytest.mark.parametrize("script", RUN)
def test_a_script_runs_on_small_data(script: str, folder: Path, pipeline: RunningPipeline) -> None:
    """The scripts that ask any installation ask the running one."""
    arguments, part = RUN[script]
    others = {name: value for name, value in os.environ.items() if not name.startswith("CHORALE_")}
    environment = {**others, **pipeline.environment}
    ended = run_module(
        f"docs.evidence.{script}",
        *arguments.format(folder=folder).split(),
        environment=environment,
        timeout_s=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert part in ended.stdout
