"""Our own golden suite through the whole pipeline with the real model: what `chorale golden` promises of the product."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli import golden_suite as suite
from cli.demo.python_docs import python_docs
from cli.golden_suite import ARTICLES, QUESTIONS
from evaluation.golden_file import read_golden
from tests.support.command_line import in_process


def test_an_expected_document_is_among_the_first_five_and_what_nothing_answers_is_abstained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The corpus is a tenth of Python's documentation.  `chorale golden` embeds all of it, which takes minutes."""
    expected = {id_ for question in read_golden(QUESTIONS) for id_ in question.expected}
    documents = list(python_docs())
    tenth = [
        document for at, document in enumerate(documents) if at % 10 == 0 or document.document_id in expected
    ]
    monkeypatch.setattr(suite, "python_docs", lambda: tenth)
    found = in_process("golden", "--json", "--may-fail", "2", CHORALE_HOME=str(tmp_path / "home"))
    assert found.returncode == 0, found.stdout + found.stderr
    verdicts = json.loads(found.stdout)["verdicts"]
    answered = [one["passed"] for one in verdicts if one["expected"]]
    abstained = [one["abstained"] for one in verdicts if not one["expected"]]
    assert (len(answered), abstained) == (25, [True] * 5)
    assert sum(answered) >= 23
    assert json.loads(found.stdout)["recall@10"] >= 0.9
    left = in_process("namespaces", "list", "--json", CHORALE_HOME=str(tmp_path / "home"))
    assert json.loads(left.stdout)["namespaces"] == []


def test_the_suite_expects_every_article_and_nothing_that_is_not_there() -> None:
    expected = {id_ for one in read_golden(QUESTIONS) for id_ in one.expected}
    articles = {f"articles/{file.name}" for file in ARTICLES.iterdir()}
    assert len(articles) == 8
    assert {id_ for id_ in expected if not id_.startswith("python/")} == articles
