"""The confidence of an answer, and abstention, through the pipeline."""

from __future__ import annotations

from typing import Any

from ingest.raw_documents import RawDocument
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tests.support.models.languages import ITALIAN
from tests.support.pipelines.one_process import OneProcess

ANSWERED, UNANSWERED = "When must a tenant give notice?", "Which planet has the most moons?"
ASKED: dict[str, Any] = {"namespace": "trust", "timeout_s": 20}


def test_a_question_that_nothing_answers_is_abstained_and_keeps_its_hits(here: OneProcess) -> None:
    here.index(namespace="trust")
    answer = here.ask([ANSWERED, UNANSWERED], abstain=0.5, **ASKED)
    good, bad = answer.questions
    assert (answer.status, good.abstained, bad.abstained) == ("complete", False, True)
    assert good.confidence is not None
    assert bad.confidence is not None
    assert bad.confidence < 0.2 < 0.8 < good.confidence
    assert good.hits[0].document_id == "notice"
    assert (len(bad.hits), answer.warnings) == (5, ())

    # Without the option the answer says the same, and nothing is abstained.
    page = here.ask(UNANSWERED, **ASKED).questions[0]
    assert (page.confidence, page.abstained, page.signals) == (bad.confidence, False, {})


def test_nothing_is_abstained_where_the_encoder_hardly_knows_the_language(here: OneProcess) -> None:
    italian = RawDocument(document_id="disdetta", source="tests", title="", text=ITALIAN)
    index_corpus(here.resources, SourceDocuments([italian], "tests"), namespace="fiducia")
    asked: dict[str, Any] = {"namespace": "fiducia", "timeout_s": 20, "abstain": 0.99}
    answer = here.ask(["Quanto dura il preavviso?", "xyzzy"], include=["explanation"], **asked)
    found, nothing = answer.questions
    assert (found.confidence, found.abstained, found.signals) == (None, False, {})
    assert nothing.abstained is False
    kinds = [line.split(":")[0] for line in answer.warnings]
    assert sorted(kinds) == ["abstain", "language"]
    (why,) = (line for line in answer.warnings if line.startswith("abstain:"))
    assert "it needs the branch `vector`, an encoder that knows the namespace's language" in why
