"""Our own golden suite through the whole pipeline with the real model: what `chorale golden` promises of the product."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.installation import Installation
from config.settings import Settings
from evaluation.judged.golden import read_golden
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tests.bench.python_docs import SOURCE, python_docs
from tests.support.command_line import in_process

SUITE = Path(__file__).with_name("golden_suite")
ARTICLES, QUESTIONS = SUITE / "articles", SUITE / "questions.yaml"


@pytest.mark.limit_s(300)  # it embeds a hundred documents
def test_an_expected_document_is_among_the_first_five_and_what_nothing_answers_is_abstained(
    tmp_path: Path,
) -> None:
    """The corpus is a hundred-and-twentieth of Python's documentation: all of it takes minutes to embed."""
    expected = {id_ for question in read_golden(QUESTIONS) for id_ in question.expected}
    documents = [
        document
        for place, document in enumerate(python_docs())
        if place % 120 == 0 or document.document_id in expected
    ]
    home = {"CHORALE_HOME": str(tmp_path / "home")}
    indexed = in_process("index", str(ARTICLES), "--namespace", "golden", **home)
    assert indexed.returncode == 0, indexed.stderr
    resources = Installation(Settings(home=tmp_path / "home"), None).resources
    index_corpus(resources, SourceDocuments(documents, SOURCE, total=len(documents)), namespace="golden")
    resources.writing_store.close()

    options = ("--namespace", "golden", "--json", "--may-fail", "2")
    done = in_process("golden", str(QUESTIONS), *options, **home)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    verdicts = report["verdicts"]
    answered = [verdict["passed"] for verdict in verdicts if verdict["expected"]]
    abstained = [verdict["abstained"] for verdict in verdicts if not verdict["expected"]]
    assert (len(answered), abstained) == (25, [True] * 5)
    assert sum(answered) >= 23
    assert report["recall@10"] >= 0.9
    assert report["ndcg@10"] >= 0.85


def test_the_suite_expects_every_article_and_nothing_that_is_not_there() -> None:
    expected = {id_ for question in read_golden(QUESTIONS) for id_ in question.expected}
    articles = {f"articles/{file.name}" for file in ARTICLES.iterdir()}
    assert len(articles) == 8
    assert {id_ for id_ in expected if not id_.startswith("python/")} == articles
