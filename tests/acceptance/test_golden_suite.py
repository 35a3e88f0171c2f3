"""Our own golden suite through the whole pipeline with the real model: what `chorale golden` promises of the product."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cli.golden_suite.suite import ARTICLES, QUESTIONS
from evaluation.golden_file import read_golden
from tests.support.command_line import command


@pytest.mark.limit_s(900)  # it embeds the demo's corpus
def test_an_expected_document_is_among_the_first_five_and_what_nothing_answers_is_abstained(
    tmp_path: Path,
) -> None:
    home = {
        "CHORALE_HOME": str(tmp_path / "home"),
        # The processor time of int8 is half that of fp32, and the demo indexes in it too.
        "CHORALE_EMBEDDER_DOCUMENT_PRECISION": "int8",
    }
    called = command("golden", "--json", "--may-fail", "2", **home)
    found = subprocess.run(**called, capture_output=True, timeout=800)
    assert found.returncode == 0, found.stdout + found.stderr
    verdicts = json.loads(found.stdout)["verdicts"]
    answered = [one["passed"] for one in verdicts if one["expected"]]
    abstained = [one["abstained"] for one in verdicts if not one["expected"]]
    assert (len(answered), abstained) == (25, [True] * 5)
    assert sum(answered) >= 23
    assert json.loads(found.stdout)["recall@10"] >= 0.9


def test_the_suite_expects_every_article_and_nothing_that_is_not_there() -> None:
    expected = {id_ for one in read_golden(QUESTIONS) for id_ in one.expected}
    articles = {f"articles/{file.name}" for file in ARTICLES.iterdir()}
    assert len(articles) == 8
    assert {id_ for id_ in expected if not id_.startswith("python/")} == articles
